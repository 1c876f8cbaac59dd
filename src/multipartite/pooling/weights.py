"""Layers with weights of their own, which are made when the number of channels is known.

Until then they are torch's uninitialised parameters: an optimiser may hold them, ``.to()`` moves them, and a state can
be loaded into them. They start from constants, so that no random number is drawn for them and no other weight of a
network is shifted.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter, is_lazy

from multipartite.errors import InputError
from multipartite.pooling.window import Pool

__all__ = ["WeightedPool"]


class WeightedPool(Pool):
    """Base of layers whose weights depend on the channels.

    A subclass names its weights and what they start from in `start`, and says in `shape` how large they are.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``nn.MaxPool2d``.
    device, dtype
        Of the weights.
    """

    start: ClassVar[dict[str, float]]

    def __init__(
        self, *sizes: Any, device: torch.device | str | None = None, dtype: torch.dtype | None = None, **window: Any
    ) -> None:
        super().__init__(*sizes, **window)
        self.allocated = False  # whether the weights are made
        for name in self.start:
            weight: Any = UninitializedParameter(device=device, dtype=dtype)  # type: ignore[call-arg]
            self.register_parameter(name, weight)

    def shape(self, name: str, channels: int) -> tuple[int, ...]:
        """Shape of a weight for so many channels."""
        raise NotImplementedError

    def allocate(self, num_channels: int, device: torch.device | None = None) -> None:
        """Make the weights for `num_channels` channels."""
        if isinstance(num_channels, bool) or not isinstance(num_channels, int) or num_channels < 1:
            raise InputError(f"num_channels must be a whole number from 1, got {num_channels!r}")
        self._make({name: self.shape(name, num_channels) for name in self.start}, device)
        with torch.no_grad():
            for name, value in self.start.items():
                getattr(self, name).fill_(value)

    def _make(self, shapes: dict[str, tuple[int, ...]], device: torch.device | None = None) -> None:
        with torch.inference_mode(False):  # what is made in inference mode could never be trained
            for name, shape in shapes.items():
                getattr(self, name).materialize(shape, device=device)
        self.allocated = not any(is_lazy(getattr(self, name)) for name in self.start)

    def meet(self, x: Tensor) -> None:
        """Make the weights, if that is still to do, for the channels of x (N, C, *spatial) or (C, *spatial)."""
        if not self.allocated:
            self.allocate(self.window.as_batch(x)[0].shape[1], x.device)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        if self.allocated:  # else there is nothing to keep
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if not self.allocated:
            given = {name: state_dict[prefix + name] for name in self.start if prefix + name in state_dict}
            self._make({name: tuple(weight.shape) for name, weight in given.items()})
        super()._load_from_state_dict(state_dict, prefix, *args)
