"""Checkpoints without pickle: tensors and a JSON record in one safetensors file, with a digest over both.

One file, so that tensors and record cannot come from different moments; the one before is kept, so that a
damaged file costs an epoch and not the run. The tensors are called ``model.NAME`` (parameters and buffers) and
``optimizer.KIND.NAME``; `state` and `restore` alone know that.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, nn

from multipartite.errors import InputError, warn
from multipartite.experiments.run.config import FORMAT
from multipartite.experiments.run.store import CHECKPOINT, PREVIOUS, write_atomically

__all__ = ["digest", "load", "restore", "save", "state"]


class _Damaged(Exception):
    """A checkpoint file that cannot be trusted, with the reason."""


def digest(tensors: dict[str, Tensor], record: str = "") -> str:
    """Hash of names, types, shapes and bits: equal digests, equal bits.

    Examples
    --------
    >>> digest({"a": torch.zeros(2)}) == digest({"a": torch.zeros(2)})
    True
    >>> digest({"a": torch.zeros(2)}) == digest({"a": torch.zeros(1, 2)})
    False
    """
    state = hashlib.blake2b(record.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        tensor = tensor.detach().cpu().contiguous()
        state.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def state(net: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Gather everything that the next step depends on: parameters, buffers, momentum."""
    tensors = {f"model.{name}": tensor for name, tensor in net.state_dict().items()}
    for name, parameter in net.named_parameters():
        for kind, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{kind}.{name}"] = value
    return tensors


def restore(tensors: dict[str, Tensor], net: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Undo :func:`state`, of the network alone where no optimiser is given.

    Examples
    --------
    >>> one, two = nn.Linear(2, 1), nn.Linear(2, 1)
    >>> restore(state(one, torch.optim.SGD(one.parameters())), two)
    >>> bool((one.weight == two.weight).all())
    True
    """
    net.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")})
    if optimizer is None:
        return
    parameters = dict(net.named_parameters())
    for key, tensor in tensors.items():
        place, _, rest = key.partition(".")
        if place == "optimizer":
            kind, _, name = rest.partition(".")
            with torch.no_grad():  # the layout of the parameter, so that the same kernels run as before
                optimizer.state[parameters[name]][kind] = torch.empty_like(parameters[name]).copy_(tensor)


def save(folder: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write a checkpoint into `folder` and keep the one before; a crash leaves one that loads.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> save(folder, {"weight": torch.ones(2)}, {"epoch": 1})
    >>> load(folder)
    ({'weight': tensor([1., 1.])}, {'epoch': 1})
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record, allow_nan=False)
    head = {"format": str(FORMAT), "record": text, "digest": digest(tensors, text)}
    write_atomically(folder / CHECKPOINT, safetensors.save(tensors, head), keep=folder / PREVIOUS)


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the newest checkpoint in `folder` that is whole, None where there is none at all.

    A damaged one is passed over with a warning in favour of the one before it.
    """
    reasons = []
    for name in (CHECKPOINT, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            found = _read(path)
        except _Damaged as reason:
            reasons.append(f"{path} is damaged ({reason})")
            continue
        if reasons:
            warn(f"{reasons[0]}; going on from the one before it, {name}")
        return found
    if reasons:
        raise InputError(f"{' and '.join(reasons)}: no checkpoint is left, train the run again in a new folder")
    return None


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    content = path.read_bytes()
    try:
        tensors = safetensors.load(content)
        size = int.from_bytes(content[:8], "little")  # safetensors: length of the header, then the header in JSON
        head = json.loads(content[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError) as error:
        raise _Damaged(error) from None
    if head.get("format") != str(FORMAT):
        raise InputError(
            f"{path} is a checkpoint of format {head.get('format')}, this version reads format {FORMAT}: "
            "train the run again in a new folder, or go on with the version that wrote it"
        )
    if digest(tensors, head.get("record", "")) != head.get("digest"):
        raise _Damaged("its contents do not match their digest")
    return tensors, json.loads(head["record"])
