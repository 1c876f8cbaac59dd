"""The callback on a real Trainer of either Lightning package."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import multipartite as mp
from multipartite.errors import InputError, MultipartiteWarning
from multipartite.labels import current_labels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
]


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request):
    return pytest.importorskip(request.param)


def trainer_of(lightning, *callbacks, **options):
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    settings = {"max_epochs": 2, "accelerator": "cpu", "enable_model_summary": False, "num_sanity_val_steps": 1}
    return lightning.Trainer(callbacks=list(callbacks), **quiet | settings | options)


def model_of(lightning, fail_at=None):
    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.pool = mp.MultipartitePool2d.printed(2, num_classes=3, momentum=0.0, learn_every=1)
            self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), self.pool, nn.Flatten(), nn.Linear(36, 3))
            self.seen, self.validated = [], []

        def training_step(self, batch, index):
            if index == fail_at:
                raise RuntimeError("stopped on purpose")
            x, y = (batch["image"], batch["truth"]) if isinstance(batch, dict) else batch
            self.seen.append(current_labels()[0].tolist())
            assert self.seen[-1] == y.tolist()
            return F.cross_entropy(self.net(x), y)

        def validation_step(self, batch, index):
            self.validated.append(current_labels())
            self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    return Net()


def loader(batches=3):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4 * batches, 1, 8, 8, generator=generator)
    return DataLoader(TensorDataset(x, torch.arange(4 * batches) % 3), batch_size=4)


def test_every_training_batch_is_supervised_and_no_other(lightning):
    from multipartite.integrations.lightning import Supervise

    model = model_of(lightning)
    trainer_of(lightning, Supervise(), num_sanity_val_steps=0).fit(model, loader(), loader(1))
    assert model.pool.updates == len(model.seen) == 6
    assert model.validated == [None, None]
    assert model.pool.informed
    assert current_labels() is None


def test_accumulated_gradients_count_every_batch_once(lightning):
    from multipartite.integrations.lightning import Supervise

    model = model_of(lightning)
    trainer_of(lightning, Supervise(), accumulate_grad_batches=2, max_epochs=1).fit(model, loader(4))
    assert model.pool.updates == 4
    assert model.pool.statistics.total == 16 * 36


def test_labels_are_gone_after_an_exception(lightning):
    from multipartite.integrations.lightning import Supervise

    model = model_of(lightning, fail_at=1)
    with pytest.raises(RuntimeError, match="stopped on purpose"):
        trainer_of(lightning, Supervise()).fit(model, loader())
    assert model.pool.updates == 1
    assert current_labels() is None


def test_labels_are_gone_when_the_module_skips_the_rest_of_an_epoch(lightning):
    from multipartite.integrations.lightning import Supervise

    model = model_of(lightning)
    model.on_train_batch_start = lambda batch, index: -1 if index == 1 else None
    trainer_of(lightning, Supervise(), max_epochs=1).fit(model, loader())
    assert len(model.seen) == 1
    assert current_labels() is None


def test_a_function_takes_the_labels_out_of_a_batch(lightning):
    from multipartite.integrations.lightning import Supervise

    data = [{"image": torch.rand(8, 8)[None], "truth": i % 3} for i in range(8)]
    model = model_of(lightning)
    callback = Supervise(lambda batch: batch["truth"])
    trainer_of(lightning, callback, max_epochs=1).fit(model, DataLoader(data, batch_size=4))
    assert model.pool.updates == 2
    other = model_of(lightning)
    with pytest.raises(InputError, match=r"must be \(input, labels\) or dicts .* got dict with image, truth; give"):
        trainer_of(lightning, Supervise(), max_epochs=1).fit(other, DataLoader(data, batch_size=4))
    assert current_labels() is None


def test_lightning_is_imported_only_when_asked_for():
    code = (
        "import sys, multipartite as mp, multipartite.integrations; mp.supervise, mp.MultipartitePool2d; "
        "sys.exit(any(name.split('.')[0] in ('lightning', 'pytorch_lightning') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_lightning_the_cure_is_named(monkeypatch):
    for name in ("lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "multipartite.integrations.lightning", raising=False)
    with pytest.raises(ImportError, match="pip install lightning"):
        importlib.import_module("multipartite.integrations.lightning")


def test_a_model_that_was_validated_first_can_be_trained(lightning):
    from multipartite.integrations.lightning import Supervise

    model = model_of(lightning)
    trainer = trainer_of(lightning, Supervise(), max_epochs=1)
    with pytest.warns(MultipartiteWarning, match="has seen no labels yet"):
        trainer.validate(model, loader(1), verbose=False)
    trainer.fit(model, loader(), loader(1))
    assert model.pool.updates == 3
    assert model.pool.informed
