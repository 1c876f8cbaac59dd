"""What every process of test_distributed does; run by torchrun, it leaves one file of tensors a process."""

from __future__ import annotations

import contextlib
import copy
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import multipartite as mp

CLASSES, CHANNELS, IMAGES = 3, 4, 16
EXACT = {"num_classes": CLASSES, "max_rows": None, "learn_every": 1}
PRINTED = {"gather": None, "assignment": "hard", **EXACT}


def batch(step):
    """Sixteen images of three classes, far from zero; four channels."""
    y = torch.arange(IMAGES) % CLASSES
    noise = torch.randn(IMAGES, CHANNELS, 6, 6, generator=torch.Generator().manual_seed(step))
    shift = torch.tensor([[0.0, 1, 0, 2], [1, 0, 0, 1], [0, 0, 1, 0]])[y]
    return 10 + noise + shift[..., None, None], y


def share(rank, world, kind):
    """Which images a process gets: as many each, uneven parts, or none at all for the last."""
    if kind == "even":
        ends = [IMAGES * r // world for r in range(world + 1)]
    elif kind == "uneven":
        ends = [0, *[IMAGES // 2 + r for r in range(1, world)], IMAGES]
    else:
        ends = [IMAGES * r // (world - 1) for r in range(world)] + [IMAGES]
    return slice(ends[rank], ends[rank + 1])


def network(assignment="hard", gather=None, **options):
    torch.manual_seed(1)
    pool = mp.MultipartitePool2d(2, refit_every=2, assignment=assignment, gather=gather, **EXACT, **options)
    return nn.Sequential(nn.Conv2d(CHANNELS, 6, 3), nn.BatchNorm2d(6).eval(), pool, nn.Flatten(), nn.Linear(24, 3))


def learn(rank=0, world=1, kind="even", steps=7, wreck=None, **options):
    """A layer alone, `steps` updates; refits, and so exchanges, at 1, 4 and 7."""
    pool = mp.MultipartitePool2d(2, refit_every=3, **PRINTED, **options)
    part = share(rank, world, kind)
    for step in range(steps):
        x, y = (t[part] for t in batch(step))
        if wreck == "labels" and rank == world - 1:
            y = torch.full_like(y, -100)
        if wreck == "nan" and rank == world - 1 and step == 2:
            x = x * torch.nan
        with mp.supervise(y):
            pool.observe(x)
    return pool.state_dict()


def train(model, rank=0, world=1, steps=5, context=contextlib.nullcontext, lr=0.05):
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        x, y = (t[share(rank, world, "even")] for t in batch(step))
        optimiser.zero_grad()
        with mp.supervise(y), context():
            loss = F.cross_entropy(model(x - 10), y)
        loss.backward()
        optimiser.step()
    return {name.removeprefix("_orig_mod.").removeprefix("module."): t for name, t in model.state_dict().items()}


def accumulate(rank, world):
    """Four batches in two steps: the statistics remember all (momentum 0), each image once."""
    model = DistributedDataParallel(
        nn.Sequential(nn.Conv2d(CHANNELS, 4, 1), mp.MultipartitePool2d(2, **PRINTED, momentum=0, refit_every=1))
    )
    for step in range(4):
        x, y = (t[share(rank, world, "even")] for t in batch(step))
        with mp.supervise(y), model.no_sync() if step % 2 == 0 else contextlib.nullcontext():
            model(x).sum().backward()
    return model.module[1].state_dict()


def fitted(rank=0, world=1):
    loader = [tuple(t[share(rank, world, "uneven")] for t in batch(step)) for step in range(3)]
    return mp.fit(network(), loader).state_dict()


def saved_between(rank, world):
    """A checkpoint that one process writes between two refits, after all have joined what they saw."""
    pool = mp.MultipartitePool2d(2, refit_every=3, num_channels=CHANNELS, **PRINTED)
    for step in range(7):
        x, y = (t[share(rank, world, "even")] for t in batch(step))
        with mp.supervise(y):
            pool.observe(x)
        if step == 4:
            assert pool.pending.turns == 1
            assert any(name.startswith("pending.") for name in pool.state_dict())
            pool.join()
            state = [pool.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(state)
            pool = mp.MultipartitePool2d(2, refit_every=3, num_channels=CHANNELS, **PRINTED)
            pool.load_state_dict(state[0])
    return pool.state_dict()


def forgotten(rank, world):
    """The last process forgets its labels; every process hears of it at the next refit."""
    pool = mp.MultipartitePool2d(2, refit_every=2, num_channels=CHANNELS, **PRINTED)
    said = ""
    for step in range(3):
        x, y = (t[share(rank, world, "even")] for t in batch(step))
        with mp.supervise(None if rank == world - 1 and step == 1 else y):
            try:
                pool.observe(x)
            except mp.errors.InputError as error:
                said = str(error)
    return {"heard": torch.tensor("labels must reach every process or none, but 1 of the" in said)}


def counted(scenario, *arguments, **options):
    """How often the processes talked, and how many numbers they said each time."""
    sizes, real = [], dist.all_reduce
    dist.all_reduce = lambda tensor, **kw: (sizes.append(tensor.numel()), real(tensor, **kw))[1]
    try:
        scenario(*arguments, **options)
    finally:
        dist.all_reduce = real
    return {"sizes": torch.tensor(sizes)}


def narrowed(rank, world):
    """The processes of even rank and those of odd rank go their own ways."""
    groups = [dist.new_group(list(range(start, world, 2))) for start in (0, 1)]
    pool = mp.MultipartitePool2d(2, process_group=groups[rank % 2], refit_every=1, **PRINTED)
    pool = copy.deepcopy(pool)  # a copy talks to the same processes
    assert pool.process_group is groups[rank % 2]
    x, y = (t[share(rank, world, "even")] for t in batch(0))
    with mp.supervise(y):
        pool(x)
    return pool.state_dict()


def compiled(rank, world):
    return train(torch.compile(DistributedDataParallel(network(num_channels=6)), backend="aot_eager"), rank, world)


def half(rank, world):
    return train(
        DistributedDataParallel(network("soft")), rank, world, context=lambda: torch.autocast("cpu", torch.bfloat16)
    )


def sharded(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(network(), mesh=init_device_mesh("cpu", (world,)))
    state = train(model, rank, world)
    return {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in state.items()}


def main(folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    me = rank, dist.get_world_size()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "MultipartitePool2d: refused a batch")
        warnings.filterwarnings("ignore", "MultipartitePool2d got no labels")
        results = {
            "even": learn(*me),
            "uneven": learn(*me, "uneven"),
            "empty": learn(*me, "empty"),
            "ignored": learn(*me, wreck="labels"),
            "nan": learn(*me, wreck="nan"),
            "talk": counted(learn, *me, num_channels=CHANNELS),
            "saved": saved_between(*me),
            "forgotten": forgotten(*me),
            "narrowed": narrowed(*me),
            "accumulated": accumulate(*me),
            "fitted": fitted(*me),
            "trained": train(DistributedDataParallel(network()), *me),
            "gathered": train(DistributedDataParallel(network(gather="max")), *me),
            "lines": train(DistributedDataParallel(network("lines", gather="max", focus=0.5)), *me),
            "soft": train(DistributedDataParallel(network("soft"), broadcast_buffers=False), *me),
            "half": half(*me),
            "compiled": compiled(*me),
            "sharded": sharded(*me),
        }
    torch.save(
        {name: {k: t.detach() for k, t in state.items()} for name, state in results.items()}, Path(folder, f"{rank}.pt")
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
