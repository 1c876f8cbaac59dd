"""Checkpoints under fault: killed while writing, a full disk, a damaged or an older file."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save as to_safetensors

from multipartite.errors import InputError
from multipartite.experiments.run import checkpoint, store

KILLER = Path(__file__).with_name("kill_while_saving.py")


def tensors(step):
    return {"weight": torch.full((300, 50), float(step)), "count": torch.tensor(step)}


def saved(folder, *steps):
    for step in steps:
        checkpoint.save(folder, tensors(step), {"step": step})


def step_in(folder):
    found, record = checkpoint.load(folder)
    assert torch.equal(found["weight"], tensors(record["step"])["weight"])
    return record["step"]


def test_round_trip_of_types_shapes_and_layouts(tmp_path):
    state = {
        "half": torch.randn(3).to(torch.bfloat16),
        "wide": torch.randn(2, 2, dtype=torch.float64),
        "scalar": torch.tensor(True),
        "empty": torch.empty(0, 3),
        "strided": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    checkpoint.save(tmp_path, state, {"note": "Ψ", "third": 1 / 3})
    found, record = checkpoint.load(tmp_path)
    assert record == {"note": "Ψ", "third": 1 / 3}
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_nothing_there_is_none(tmp_path):
    assert checkpoint.load(tmp_path) is None


def test_the_one_before_is_kept(tmp_path):
    saved(tmp_path, 1, 2, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [store.PREVIOUS, store.CHECKPOINT]
    assert step_in(tmp_path) == 3
    (tmp_path / store.CHECKPOINT).unlink()
    assert step_in(tmp_path) == 2


def damage_tail(content):
    return content[:-3] + bytes(b ^ 1 for b in content[-3:])


@pytest.mark.parametrize(
    "damage",
    [
        damage_tail,
        lambda c: c[: len(c) // 2],
        lambda c: b"",
        lambda c: b"\xff" * 64 + c[64:],
        lambda c: c + b"x",
        lambda c: c.replace(b'step\\": 2', b'step\\": 9'),
    ],
    ids=["bits", "truncated", "empty", "header", "longer", "record"],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(tmp_path, damage):
    saved(tmp_path, 1, 2)
    path = tmp_path / store.CHECKPOINT
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert path.read_bytes() != content
    with pytest.warns(UserWarning, match="checkpoint.safetensors is damaged .* going on from the one before it"):
        assert step_in(tmp_path) == 1


def test_two_damaged_checkpoints_are_an_error_with_a_cure(tmp_path):
    saved(tmp_path, 1, 2)
    for name in (store.CHECKPOINT, store.PREVIOUS):
        (tmp_path / name).write_bytes(b"no")
    with pytest.raises(InputError, match="no checkpoint is left, train the run again"):
        checkpoint.load(tmp_path)


def test_an_older_format_is_named(tmp_path):
    (tmp_path / store.CHECKPOINT).write_bytes(to_safetensors({"w": torch.ones(1)}, {"format": "0"}))
    with pytest.raises(InputError, match="is a checkpoint of format 0, this version reads format 1"):
        checkpoint.load(tmp_path)


def test_killed_at_fifty_random_moments_a_whole_checkpoint_is_always_there(tmp_path):
    done = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), "50"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == 50
    assert report["killed_while_writing"] > 0  # else the moments missed what they were meant for


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_checkpoints_as_they_were(tmp_path, monkeypatch, call):
    saved(tmp_path, 1, 2)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if call == "fsync":
            patch.setattr(store.os, "fsync", full)
        elif call == "replace":
            patch.setattr(Path, "replace", full)
        else:
            patch.setattr(Path, "open", full)
        with pytest.raises(OSError, match=r"cannot write .*No space left on device.*untouched") as caught:
            saved(tmp_path, 3)
    assert caught.value.errno == errno.ENOSPC
    assert sorted(p.name for p in tmp_path.iterdir()) == [store.PREVIOUS, store.CHECKPOINT]
    assert step_in(tmp_path) == 2
    saved(tmp_path, 3)
    assert step_in(tmp_path) == 3


def test_a_disk_that_is_really_full(tmp_path):
    """Half a megabyte of memory as a disk, where the system lets us mount one."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs privileges that are missing here")
    try:
        saved(tmp_path, 1)
        (tmp_path / "filler").write_bytes(b"x" * 60_000)
        with pytest.raises(OSError, match="No space left on device"):
            saved(tmp_path, 2)
        assert step_in(tmp_path) == 1
        (tmp_path / "filler").unlink()
        saved(tmp_path, 2)
        assert step_in(tmp_path) == 2
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
