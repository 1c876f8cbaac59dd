"""What a supervised layer keeps: class statistics and the folded factor, as buffers that come into being late."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Self

from multipartite.errors import InputError
from multipartite.folding import Fold, pooling_criterion
from multipartite.statistics import ClassStatistics

__all__ = ["FactorState", "check_whole"]

_KINDS = {1: "absolute", 2: "quadratic"}  # by the power of the criterion


def check_whole(name: str, value: object, *, least: int) -> None:
    """Refuse what is not a whole number from `least` on.

    Examples
    --------
    >>> check_whole("groups", 4, least=1)
    """
    if not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be at least {least}, a whole number, got {value!r}")


class FactorState(nn.Module):
    """Buffers of a layer that scores pixels by a folded factor.

    They are made when the number of channels is known: at construction, at the first forward or by
    ``load_state_dict``. They move with the layer, but never to less than float32.

    Parameters
    ----------
    num_classes, groups : int
        Sizes that are known from the start.
    criterion : str
        Which decides the rank and the kind of the factor.
    """

    factor: Tensor | None
    offset: Tensor | None
    log_prior: Tensor | None
    updates: Tensor | None
    statistics: ClassStatistics | None

    def __init__(
        self,
        num_classes: int,
        groups: int,
        criterion: str,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        check_whole("num_classes", num_classes, least=2)
        check_whole("groups", groups, least=1)
        pooling_criterion(criterion)
        self.num_classes, self.groups, self.criterion = num_classes, groups, criterion
        self.num_channels: int | None = None
        self.steps = 0  # mirrors the buffer `updates` without asking the device
        self.informed = False  # every group's factor is known not to be zero
        for name in ("factor", "offset", "log_prior", "updates"):
            self.register_buffer(name, None)
        self.statistics = None
        self._factory: dict[str, Any] = {"device": device, "dtype": dtype or torch.get_default_dtype()}

    def settle(self, num_channels: int, device: torch.device | None = None) -> None:
        """Make the buffers for `num_channels` channels."""
        if num_channels % self.groups:
            raise InputError(f"num_channels must be divisible by groups={self.groups}, got {num_channels}")
        self.num_channels = num_channels
        d, c = num_channels // self.groups, self.num_classes
        where: Any = {"device": device or self._factory["device"]}
        dtype = torch.promote_types(self._factory["dtype"], torch.float32)
        measure = pooling_criterion(self.criterion)
        r = min(c - 1, d) if measure.weight is not None and measure.power == 2 else c
        self.statistics = ClassStatistics(c, num_channels, groups=self.groups, **where)
        self.factor = torch.zeros(self.groups, d, r, dtype=dtype, **where)
        self.updates = torch.zeros((), dtype=torch.int64, **where)
        if measure.weight is None:
            self.offset = torch.zeros(self.groups, 1, r, dtype=dtype, **where)
            self.log_prior = torch.zeros(r, dtype=dtype, **where)

    def unsettle(self) -> None:
        """Forget the number of channels too: the layer is as it was before it met any."""
        self.num_channels, self.statistics = None, None
        self.factor = self.offset = self.log_prior = self.updates = None
        self.steps, self.informed = 0, False

    def remember(self) -> Callable[[], None]:
        """Keep a copy of what was learned, and return a function that puts it back."""
        channels, steps, informed = self.num_channels, self.steps, self.informed
        copies = {name: buffer.clone() for name, buffer in self.named_buffers()}

        def put_back() -> None:
            if channels is None:
                self.unsettle()
            for name, buffer in self.named_buffers():
                buffer.copy_(copies[name])
            self.steps, self.informed = steps, informed

        return put_back

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        def keep_float32(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            low = moved.is_floating_point() and torch.finfo(moved.dtype).bits < 32
            return tensor.to(moved.device) if low else moved

        probe = fn(torch.empty(0, dtype=self._factory["dtype"], device=self._factory["device"]))
        self._factory.update(device=probe.device, dtype=probe.dtype)
        super()._apply(keep_float32, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: Any,
        alien: Any,
        errors: Any,
    ) -> None:
        came = state_dict.get(f"{prefix}factor")
        if came is not None:
            fits = self._make_room(came, state_dict.get(f"{prefix}statistics.count"))
            if not fits:
                errors.append(
                    f"layer {prefix.rstrip('.') or type(self).__name__!r}: the state is for other channels, classes or "
                    f"groups: its factor (groups, channels a group, rank) is {tuple(came.shape)}, and this layer has "
                    f"num_channels={self.num_channels}, num_classes={self.num_classes}, groups={self.groups}"
                )
                for key in [k for k in state_dict if k.startswith(prefix)]:
                    del state_dict[key]
                return
            if not any(k.startswith(f"{prefix}statistics.") for k in state_dict):
                self.freeze()  # as the state is; one that still counts its updates may
                self.updates = came.new_zeros((), dtype=torch.int64) if f"{prefix}updates" in state_dict else None
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, alien, errors)
        if self.factor is not None and not self.factor.is_meta:
            self.steps = 0 if self.updates is None else int(self.updates)
            self.look()

    def _make_room(self, factor: Tensor, count: Tensor | None) -> bool:
        """Settle a new layer for a factor that is being loaded; whether it fits, and if not nothing changes."""
        new = self.num_channels is None
        if (count is not None and len(count) != self.num_classes) or factor.shape[0] != self.groups:
            return False
        if new:
            self.settle(factor.shape[0] * factor.shape[1])
        assert self.factor is not None
        fits = self.factor.shape == factor.shape
        if new and not fits:
            self.unsettle()
        return fits

    def fold(self) -> Fold | None:
        """Return what scores a pixel now; None before the layer has met any channels."""
        if self.factor is None:
            return None
        kind = "information" if self.offset is not None else _KINDS[pooling_criterion(self.criterion).power]
        # while a training step is traced, the factor that it will meet is not known yet
        informed = None if self.training and torch.compiler.is_compiling() else self.informed
        # a refit writes in place, and the gradient of an earlier forward may still need the factor it met
        factor = self.factor.clone() if torch.is_grad_enabled() else self.factor
        return Fold(factor, self.offset, self.log_prior, self.factor.new_zeros(()), kind, informed)

    def look(self) -> None:
        """Find out whether every group's factor is worth using."""
        folded = self.fold()
        self.informed = folded is not None and bool(folded.tells_apart().all())

    @property
    def frozen(self) -> bool:
        """Whether the layer keeps its factor alone and learns no more."""
        return self.factor is not None and self.statistics is None

    def freeze(self) -> None:
        """Keep what scores a pixel, drop what only learning needs."""
        self.statistics = self.updates = None

    def reset(self) -> None:
        """Forget everything that was learned."""
        if self.statistics is not None:
            self.statistics.reset()
        for buffer in (self.factor, self.offset, self.log_prior, self.updates):
            if buffer is not None:
                buffer.zero_()
        self.steps = 0
        self.informed = False
