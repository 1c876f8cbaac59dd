"""Adaptive pooling: the window follows from the size of the input, where that divides evenly."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from multipartite.errors import InputError
from multipartite.instance_ranking import is_exporting
from multipartite.pooling import registry
from multipartite.pooling.window import Window
from multipartite.words import Word

__all__ = ["AdaptivePool", "adapt"]

OutputSize: TypeAlias = int | tuple[int | None, ...] | None

_TORCH = {"average": "AdaptiveAvgPool", "max": "AdaptiveMaxPool"}


class AdaptivePool(nn.Module):
    """Pool to a given size with any layer that holds a ``window``.

    Parameters
    ----------
    pool : nn.Module
        The layer; its window is set at every forward.
    output_size : int or tuple of int or None
        As in ``nn.AdaptiveAvgPool2d``; None keeps the size of the input.

    Examples
    --------
    >>> import multipartite as mp
    >>> pool = AdaptivePool(mp.StochasticPool2d(1), (3, None))
    >>> pool(torch.rand(1, 4, 12, 5)).shape
    torch.Size([1, 4, 3, 5])
    """

    def __init__(self, pool: nn.Module, output_size: OutputSize) -> None:
        super().__init__()
        self.pool = pool
        self.dims: int = pool.window.dims  # type: ignore[union-attr, assignment]
        self.output_size = output_size if isinstance(output_size, tuple) else (output_size,) * self.dims

    def forward(self, x: Tensor) -> Any:
        """Pool x to the output size."""
        spatial = x.shape[-self.dims :]
        sizes = tuple(n if o is None else o for n, o in zip(spatial, self.output_size, strict=True))
        if any(n % o for n, o in zip(spatial, sizes, strict=True)):
            raise InputError(
                f"adaptive pooling to {sizes} needs an input whose sizes are multiples of that, got {tuple(spatial)}: "
                "resize the input, or leave this layer out of convert by `skip`"
            )
        if is_exporting():
            self._check_fixed(spatial)
        kernel = tuple(1 if o is None else int(n // o) for n, o in zip(spatial, self.output_size, strict=True))
        zeros, ones = (0,) * self.dims, (1,) * self.dims
        self.pool.window = Window(kernel, kernel, zeros, ones)  # type: ignore[assignment]
        return self.pool(x)

    def _check_fixed(self, spatial: torch.Size) -> None:
        """Refuse to export a kernel that is right for one size as one for any; a strict export hides which it is."""
        free = [isinstance(n, torch.SymInt) and o is not None for n, o in zip(spatial, self.output_size, strict=True)]
        if any(free) or torch.compiler.is_dynamo_compiling():
            raise InputError(
                f"adaptive pooling to {self.output_size} can be exported for a fixed input size only, because its "
                "kernel follows from the size: leave the spatial sizes out of dynamic_shapes, with strict=False"
            )

    def extra_repr(self) -> str:
        """Show the output size."""
        return f"output_size={self.output_size}"


def adapt(pooling: str | Word, output_size: OutputSize, *, num_classes: int, dims: int, **options: Any) -> nn.Module:
    """Build the adaptive form of the pooling called `pooling`; for max and average, torch's own.

    Examples
    --------
    >>> adapt("max", 1, num_classes=10, dims=2)
    AdaptiveMaxPool2d(output_size=1)
    """
    word = Word.parse(pooling) if isinstance(pooling, str) else pooling
    name = word.name
    if name in _TORCH:
        layer: nn.Module = getattr(torch.nn, f"{_TORCH[name]}{dims}d")(output_size, **options)
        return layer
    if name == "multipartite":  # windows that are as large as their stride leave nothing to gather from
        options = {"gather": None, **dict(word.options), **options}
    return AdaptivePool(registry.create(pooling, 1, num_classes=num_classes, dims=dims, **options), output_size)
