"""Full precision inside autocast, at no cost outside of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = ["full_precision"]


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context in which autocast leaves operations on the device of x alone.

    Examples
    --------
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16), full_precision(x):
    ...     (x @ x).dtype
    torch.float32
    """
    if x.is_meta or not torch.is_autocast_enabled(x.device.type):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)
