"""Models that nobody here wrote, with random weights: converted, trained, fitted, saved, loaded, reverted."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import multipartite as mp

CLASSES = 3


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(
        num_channels=1, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=CLASSES
    )
    return ResNetForImageClassification(config)


def unet():
    from monai.networks.nets import BasicUNet

    torch.manual_seed(0)
    return BasicUNet(spatial_dims=3, in_channels=1, out_channels=CLASSES, features=(4, 4, 8, 8, 8, 4), norm="batch")


def images(step=0):
    y = torch.arange(6) % CLASSES
    x = torch.randn(6, 1, 32, 32, generator=torch.Generator().manual_seed(step))
    return x + 2 * y[:, None, None, None], y


def volumes(step=0):
    """Every voxel has a label: which of three intensities it is near."""
    y = torch.randint(CLASSES, (2, 4, 4, 4), generator=torch.Generator().manual_seed(step))
    for dim in (1, 2, 3):
        y = y.repeat_interleave(4, dim)
    x = torch.randn(2, 1, 16, 16, 16, generator=torch.Generator().manual_seed(step))
    return x + 3 * y[:, None], y


CASES = {
    "resnet": (resnet, images, {}, 1),
    "resnet with its global head": (resnet, images, {"only": ["resnet.embedder.pooler", "resnet.pooler"]}, 2),
    "unet": (unet, volumes, {}, 4),
}


def output(model, x):
    result = model(x)
    return getattr(result, "logits", result)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_converted_trained_fitted_saved_and_loaded(name, tmp_path):
    build, batch, choice, layers = CASES[name]
    plain = build()
    shape = output(plain, batch()[0]).shape
    model = mp.convert(build(), CLASSES, refit_every=2, **choice)
    pools = [m for m in model.modules() if hasattr(m, "refit_every")]
    assert len(pools) == layers

    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(8):
        x, y = batch(step)
        with mp.supervise(y):
            logits = output(model, x)
            loss = F.cross_entropy(logits, y)
        assert logits.shape == shape
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert min(losses[4:]) < losses[0]
    assert all(pool.informed and int(pool.updates) == 8 for pool in pools)

    factors = [pool.factor.clone() for pool in pools]
    mp.fit(model, [batch(step) for step in range(3)])
    assert all(int(pool.updates) == 3 for pool in pools)
    assert not any(torch.equal(pool.factor, before) for pool, before in zip(pools, factors, strict=True))

    x, _ = batch(9)
    wanted = output(model.eval(), x)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    other = mp.convert(build(), CLASSES, **choice).eval()
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    torch.testing.assert_close(output(other, x), wanted)
    torch.testing.assert_close(output(mp.freeze(other), x), wanted)

    weights = {k: v for k, v in model.state_dict().items() if k in plain.state_dict()}
    reverted = mp.revert(model)
    assert not any(hasattr(m, "refit_every") for m in reverted.modules())
    plain.load_state_dict(weights)
    torch.testing.assert_close(output(reverted, x), output(plain.eval(), x))


def test_hugging_face_saves_and_loads_a_converted_model(tmp_path):
    model = mp.convert(resnet(), CLASSES)
    mp.fit(model, [images()])
    model.save_pretrained(tmp_path)
    from safetensors.torch import load_file

    other = mp.convert(resnet(), CLASSES).eval()
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    x, _ = images(1)
    torch.testing.assert_close(output(other, x), output(model.eval(), x))


def test_a_layer_used_at_two_widths_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two, self.pool = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3), nn.MaxPool2d(2)

        def forward(self, x):
            return self.pool(self.two(self.pool(self.one(x))))

    x, y = images()
    with pytest.raises(mp.errors.InputError, match="4 channels, got 8"), mp.supervise(y):
        mp.convert(Twice(), CLASSES)(x)
