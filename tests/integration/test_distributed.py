"""Processes that learn together: bit-equal factors, those of one process over the joined batch."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import distributed_worker as work
import pytest
import torch

import multipartite as mp

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def torchrun(script, world, *arguments, seconds=240):
    """Run a script in `world` processes on this machine; stop them all if they take too long."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    process = subprocess.Popen(
        [*launch, str(script), *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torchrun(HERE / "distributed_worker.py", request.param, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(request.param)]


def close(state, wanted, tolerance=1e-6):
    """Equal up to a share of the largest number in each tensor; of a factor F what counts is F F^T, not its turns."""
    assert state.keys() == wanted.keys()
    for name, tensor in wanted.items():
        found = state[name]
        if name.endswith("factor"):
            found, tensor = (F.double() @ F.double().mT for F in (found, tensor))
        apart = (found - tensor).abs().max()
        assert apart <= tolerance * tensor.abs().max().clamp_min(1), f"{name}: {float(apart)} apart"


TOGETHER = [
    "even",
    "uneven",
    "empty",
    "ignored",
    "nan",
    "fitted",
    "trained",
    "gathered",
    "lines",
    "soft",
    "half",
    "compiled",
    "sharded",
]


@pytest.mark.parametrize("scenario", TOGETHER)
def test_every_process_has_the_same_bits(ranks, scenario):
    for other in ranks[1:]:
        for name, tensor in ranks[0][scenario].items():
            assert torch.equal(tensor, other[scenario][name]), name
    assert all(t.isfinite().all() for t in ranks[0][scenario].values())


@pytest.mark.parametrize("scenario", ["even", "uneven", "empty"])
def test_together_they_are_one_process_over_the_joined_batch(ranks, scenario):
    close(ranks[0][scenario], work.learn())


def test_a_process_without_labels_adds_nothing(ranks):
    one = mp.MultipartitePool2d(2, refit_every=3, **work.PRINTED)
    for step in range(7):
        x, y = work.batch(step)
        y[work.share(len(ranks) - 1, len(ranks), "even")] = -100
        with mp.supervise(y):
            one(x)
    close(ranks[0]["ignored"], one.state_dict())


def test_a_process_that_breaks_a_batch_does_not_stop_the_others(ranks):
    lost, whole = ranks[0]["nan"]["statistics.count"].sum(), ranks[0]["even"]["statistics.count"].sum()
    part = work.share(len(ranks) - 1, len(ranks), "even")
    torch.testing.assert_close(whole - lost, torch.tensor((part.stop - part.start) * 36 * 0.95**4).double())


def test_one_exchange_a_refit(ranks):
    c, d = work.CLASSES, work.CHANNELS
    assert ranks[0]["talk"]["sizes"].tolist() == [c + c * d + d * d + 1] * 3  # and how many had no labels


def test_a_checkpoint_between_two_refits_loses_nothing(ranks):
    close(ranks[0]["saved"], work.learn())


def test_labels_that_are_missing_in_one_process_are_told_in_all(ranks):
    assert all(rank["forgotten"]["heard"] for rank in ranks)


def test_a_process_group_narrows_the_exchange(ranks):
    x, y = work.batch(0)
    for rank, mine in enumerate(ranks):
        friends = range(rank % 2, len(ranks), 2)
        rows = torch.cat([torch.arange(len(y))[work.share(r, len(ranks), "even")] for r in friends])
        one = mp.MultipartitePool2d(2, refit_every=1, **work.PRINTED)
        with mp.supervise(y[rows]):
            one(x[rows])
        close(mine["narrowed"], one.state_dict())


def test_accumulated_batches_count_once(ranks):
    count = ranks[0]["accumulated"]["statistics.count"]
    pixels = 4 * 36 * torch.bincount(work.batch(0)[1])
    torch.testing.assert_close(count, pixels.double())
    assert ranks[0]["accumulated"]["updates"] == 4


def test_fit_is_shared_too(ranks):
    close(ranks[0]["fitted"], work.fitted())


@pytest.mark.parametrize("scenario", ["trained", "compiled", "sharded"])
def test_training_equals_one_process(ranks, scenario):
    close(ranks[0][scenario], work.train(work.network()), tolerance=2e-5)


def test_training_with_a_gathered_maximum_equals_one_process(ranks):
    close(ranks[0]["gathered"], work.train(work.network(gather="max")), tolerance=2e-5)


def test_soft_training_equals_one_process(ranks):
    close(ranks[0]["soft"], work.train(work.network("soft")), tolerance=2e-5)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_process_without_images_pools_them(memory_format):
    pool = mp.MultipartitePool2d(2, **work.PRINTED)
    x, y = work.batch(0)
    with mp.supervise(y):
        pool(x)
    with mp.supervise(y[:0]):
        assert pool(x[:0].to(memory_format=memory_format)).shape == (0, 4, 3, 3)


def test_the_example_runs():
    output = torchrun(HERE.parents[1] / "examples" / "ddp.py", 2)
    assert "the same factor in 2 processes" in output
