"""Training: repeatable bit for bit, stopped and gone on without a trace, the same in one process as in two."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import torch as safetensors

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.run import checkpoint, store, training
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import read_run
from multipartite.experiments.run.training import Interrupted, load_trained, train_run
from multipartite.experiments.run.watching import Watcher
from multipartite.labels import supervise

SMALL = RunConfig("digits", epochs=3, limit=330, batch_size=33, threads=1)
TIMINGS = ("samples_per_second", "seconds", "peak_memory")


def bare(record):
    """A record without what a clock or the memory measured."""
    return dataclasses.replace(record, **{k: 0 for k in TIMINGS if hasattr(record, k)})


def results(path):
    run = read_run(path)
    return [bare(epoch) for epoch in run.metrics], bare(run.summary)


class StopAt(Watcher):
    """Sends itself a signal after a number of steps."""

    def __init__(self, steps, kind=signal.SIGINT):
        self.left, self.kind = steps, kind

    def step(self, epoch, meter):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(self.kind)


@pytest.mark.parametrize("word", pooling.available())
def test_a_run_twice_is_equal_bit_for_bit(tmp_path, word):
    config = dataclasses.replace(SMALL, pooling=word)
    for name in "ab":
        torch.manual_seed(ord(name))  # whatever was drawn before must not matter
        train_run(config, tmp_path / name)
    assert results(tmp_path / "a") == results(tmp_path / "b")


def test_initial_weights_and_batch_order_depend_on_the_seed_alone(tmp_path):
    found = {}
    for word in pooling.available():
        for seed in (0, 1):
            config = dataclasses.replace(SMALL, pooling=word, seed=seed, epochs=1)
            summary = train_run(config, tmp_path / f"{word}{seed}")
            found.setdefault(seed, set()).add((summary.initial, summary.order))
    assert len(found[0]) == len(found[1]) == 1
    ((weights0, order0),) = found[0]
    ((weights1, order1),) = found[1]
    assert weights0 != weights1
    assert order0 != order1


@pytest.mark.parametrize("word", pooling.available())
@pytest.mark.parametrize("steps", [[1], [9], [10, 3], [4, 4, 4, 10]], ids=str)
def test_stopped_and_gone_on_the_bits_are_the_same(tmp_path, word, steps):
    config = dataclasses.replace(SMALL, pooling=word)
    train_run(config, tmp_path / "whole")
    for count in steps:
        with pytest.raises(Interrupted, match="stopped"):
            train_run(config, tmp_path / "parts", watcher=StopAt(count))
        assert not read_run(tmp_path / "parts").finished
    train_run(config, tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


@pytest.mark.parametrize(
    "option", [{"augment": True}, {"label_smoothing": 0.1}, {"mixup": 0.2}, {"network": "modern:width=2"}], ids=str
)
def test_what_is_done_to_the_batches_goes_on_to_the_same_bits(tmp_path, option):
    config = dataclasses.replace(SMALL, pooling="multipartite", **option)
    plain = train_run(dataclasses.replace(SMALL, pooling="multipartite"), tmp_path / "plain")
    whole = train_run(config, tmp_path / "whole")
    assert whole.order == plain.order
    assert whole.final != plain.final
    for count in (4, 10):
        with pytest.raises(Interrupted, match="stopped"):
            train_run(config, tmp_path / "parts", watcher=StopAt(count))
    train_run(config, tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_soft_labels_reach_the_layers_and_errors_count_the_class_that_weighs_most(tmp_path, precision, monkeypatch):
    seen = []

    def watch(targets):
        seen.append(targets)
        return supervise(targets)

    monkeypatch.setattr(training, "supervise", watch)
    config = dataclasses.replace(SMALL, epochs=1, mixup=0.2, label_smoothing=0.1, precision=precision)
    train_run(dataclasses.replace(config, pooling="multipartite"), tmp_path / "run")
    assert len(seen) == 9
    for targets in seen:
        assert targets.shape == (33, 10)
        assert targets.dtype == torch.float32
        torch.testing.assert_close(targets.sum(1), torch.ones(33))
    assert 0 < read_run(tmp_path / "run").metrics[0].train.top1 < 100


def test_sigterm_is_as_polite_as_ctrl_c_and_handlers_are_given_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="stopped in epoch 1, after batch 2 of 9"):
        train_run(SMALL, tmp_path / "run", watcher=StopAt(2, signal.SIGTERM))
    assert signal.getsignal(signal.SIGTERM) is before
    assert checkpoint.load(tmp_path / "run")[1]["step"] == 2


def test_a_signal_in_the_last_batch_of_all_lets_the_run_finish(tmp_path):
    assert train_run(SMALL, tmp_path / "run", watcher=StopAt(27)).epochs == 3


def test_a_damaged_checkpoint_costs_an_epoch_and_not_the_bits(tmp_path):
    train_run(SMALL, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train_run(SMALL, tmp_path / "run", watcher=StopAt(22))
    (tmp_path / "run" / store.CHECKPOINT).write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="going on from the one before"):
        train_run(SMALL, tmp_path / "run")
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_training_learns_and_the_summary_tells_what_was_measured(tmp_path):
    config = RunConfig("digits", epochs=8, threads=1)
    summary = train_run(config, tmp_path / "run")
    run, data, net = load_trained(tmp_path / "run")
    assert summary.test.top1 < 6
    assert summary.test.top5 <= summary.test.top1
    assert run.metrics[0].train.objective > 3 * run.metrics[-1].train.objective
    with torch.no_grad():
        wrong = net(data.normalise(data.test.images)).argmax(1) != data.test.labels
    assert summary.test.top1 == pytest.approx(100 * wrong.float().mean().item())
    assert summary.validation == run.metrics[-1].validation
    assert summary.parameters == sum(p.numel() for p in net.parameters())
    assert summary.train_images == 1293
    assert summary.seconds > 0
    assert summary.peak_memory > 2**26
    assert [epoch.epoch for epoch in run.metrics] == list(range(1, 9))


def test_the_test_set_is_read_once_at_the_end(tmp_path, monkeypatch):
    """With other test images the run is the same up to its test errors, and it is evaluated on them once."""
    from multipartite.experiments.run import training

    seen = []
    evaluate = training.evaluate

    def noted(fabric, net, images):
        seen.append(len(images))
        return evaluate(fabric, net, images)

    monkeypatch.setattr(training, "evaluate", noted)
    train_run(SMALL, tmp_path / "run")
    assert seen.count(360) == 1  # the 360 test images
    assert seen == [33, 33, 33, 297, 33, 360]


def test_the_learning_rate_falls_linearly_to_a_hundredth(tmp_path):
    train_run(SMALL, tmp_path / "run")
    rates = [epoch.lr for epoch in read_run(tmp_path / "run").metrics]
    assert rates == pytest.approx([0.05 * (1 - 0.99 * step / 27) for step in (8, 17, 26)])


def test_the_caller_s_threads_and_random_numbers_are_left_alone(tmp_path):
    state = torch.get_rng_state()
    threads = torch.get_num_threads()
    train_run(dataclasses.replace(SMALL, threads=2, epochs=1), tmp_path / "run")
    assert torch.get_num_threads() == threads
    assert torch.equal(state, torch.get_rng_state())


def test_without_validation_there_is_none(tmp_path):
    summary = train_run(dataclasses.replace(SMALL, validation=0.0, epochs=1), tmp_path / "run")
    assert summary.validation is None
    assert summary.train_images == 330
    assert read_run(tmp_path / "run").metrics[0].validation is None


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_other_precisions_train(tmp_path, precision):
    config = RunConfig("digits", epochs=3, threads=1, precision=precision, accelerator="cpu")
    assert train_run(config, tmp_path / "run").test.top1 < 20


@pytest.mark.parametrize("lr", [1e9, 1e30])  # seen in validation, and in training already
def test_divergence_stops_the_run_with_a_cure(tmp_path, lr):
    with pytest.raises(InputError, match=r"training diverged in epoch 1 .* choose lr below 1"):
        train_run(dataclasses.replace(SMALL, lr=lr), tmp_path / "run")


@pytest.mark.filterwarnings("always:.*refused a batch")
def test_a_run_that_diverged_ends_at_once_not_with_a_warning_a_batch(tmp_path, recwarn):
    config = dataclasses.replace(SMALL, lr=1e30, pooling="multipartite", batch_size=10)
    with pytest.raises(InputError, match="training diverged in epoch 1"):
        train_run(config, tmp_path / "run")
    assert len([warning for warning in recwarn if "refused a batch" in str(warning.message)]) <= 4  # in 29 batches


def test_a_batch_larger_than_the_data_leaves_no_folder_behind(tmp_path):
    config = dataclasses.replace(SMALL, batch_size=300)
    with pytest.raises(InputError, match="batch_size=300 is more than the 297 training images of digits"):
        train_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_another_process_trains_in_is_refused(tmp_path):
    held = "from multipartite.experiments.run.store import locked; from pathlib import Path; import sys\n"
    held += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", held, str(tmp_path / "run")]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=r"another process trains in .*run: wait until it ends, or choose another"):
            train_run(SMALL, tmp_path / "run")
        assert not (tmp_path / "run").exists()
    finally:
        other.kill()  # the system gives the lock back
        other.communicate()
    train_run(SMALL, tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["fabric", "torchrun"])
def test_two_processes_train_as_one_does(tmp_path, by):
    command = str(Path(sys.executable).with_name("multipartite"))
    start = [command, "train", "digits", "--epochs", "3", "--accelerator", "cpu", "--threads", "1", "--out"]
    if by == "torchrun":
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *start]
    two = [*start, str(tmp_path / "two"), *(["--devices", "2"] if by == "fabric" else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(two, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test error") == 1
    train_run(RunConfig("digits", epochs=3, threads=1, accelerator="cpu"), tmp_path / "one")
    one, two = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two"))
    for part in ("train", "validation", "test"):
        assert two[part] == pytest.approx(one[part], rel=1e-4)


@pytest.mark.slow
def test_a_checkpoint_of_two_processes_holds_what_both_have_learned(tmp_path):
    pooling = "multipartite:learn_every=1,max_rows=None,momentum=0.0,refit_every=7"  # no refit at the end of the epoch
    words = ["train", "digits", "--pooling", pooling, "--epochs", "1", "--limit", "600", "--devices", "2"]
    command = [str(Path(sys.executable).with_name("multipartite")), *words, "--accelerator", "cpu", "--threads", "1"]
    done = subprocess.run([*command, "--out", str(tmp_path / "run")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    state = safetensors.load_file(tmp_path / "run" / "checkpoint.safetensors")
    counts = [tensor.sum().item() for name, tensor in state.items() if name.endswith("pool1.statistics.count")]
    assert counts == [500 * 7 * 7]  # five batches of a hundred; an image of 8 x 8 has 7 x 7 gathered pixels
