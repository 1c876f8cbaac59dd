"""Windows: which pixels an output looks at, in 1, 2 or 3 dimensions, as torch's own pooling counts them.

:class:`Pool` is the base of every layer here: a window, a generator to draw from, and how both are shown.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any, ClassVar, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multipartite.errors import InputError

__all__ = ["Pool", "Size", "Window", "one_a_dimension", "widened"]

Size: TypeAlias = int | tuple[int, ...]

_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


@dataclass(frozen=True)
class Window:
    """Kernel, stride, padding and dilation, one number a dimension.

    Examples
    --------
    >>> Window.of(2, dims=2)
    Window(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1), ceil_mode=False)
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    @classmethod
    def of(
        cls,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        dims: int,
    ) -> Window:
        """Read and check what ``nn.MaxPool`` would be given."""
        if dims not in _MAX_POOL:
            raise InputError(f"windows have 1, 2 or 3 dimensions, got {dims}")
        kernel = one_a_dimension("kernel_size", kernel_size, dims, least=1)
        step = kernel if stride is None else one_a_dimension("stride", stride, dims, least=1)
        pad = one_a_dimension("padding", padding, dims, least=0)
        if any(p > k // 2 for p, k in zip(pad, kernel, strict=True)):
            raise InputError(f"padding must be at most half of kernel_size={kernel}, got {pad}")
        return cls(kernel, step, pad, one_a_dimension("dilation", dilation, dims, least=1), bool(ceil_mode))

    @property
    def dims(self) -> int:
        """Number of spatial dimensions."""
        return len(self.kernel_size)

    @property
    def overlaps(self) -> bool:
        """Whether two windows may look at one pixel."""
        return any(s <= d * (k - 1) for k, s, d in zip(self.kernel_size, self.stride, self.dilation, strict=True))

    @classmethod
    def for_input(cls, x: Tensor, kernel_size: Size, *sizes: Any) -> Window:
        """Read the window of a function call, whose dimensions follow from its kernel or else from x, (N, C, ...)."""
        dims = len(kernel_size) if isinstance(kernel_size, tuple | list) else x.ndim - 2
        return cls.of(kernel_size, *sizes, dims=dims)

    def as_batch(self, x: Tensor) -> tuple[Tensor, bool]:
        """Give x as (N, C, *spatial), and whether it was that; refuse anything else, and what leaves no window."""
        self.check_input(x.shape, x.dtype)
        batched = x.ndim == self.dims + 2
        return (x if batched else x[None]), batched

    def check_input(self, shape: torch.Size, dtype: torch.dtype) -> None:
        """Refuse what is not ([N,] C, *spatial) in floating point, and what leaves no window."""
        if len(shape) not in (self.dims + 1, self.dims + 2):
            raise InputError(
                f"input must have {self.dims + 1} or {self.dims + 2} dimensions, ([N,] C, {self.dims} spatial), "
                f"got shape {tuple(shape)}"
            )
        if not dtype.is_floating_point:
            raise InputError(f"input must be floating point, got {str(dtype).removeprefix('torch.')}")
        if not torch.compiler.is_compiling():  # there torch's own pooling says so
            self.check(shape[-self.dims :])

    def check(self, spatial: torch.Size | tuple[int, ...]) -> None:
        """Refuse an input that leaves no window, or a window that looks at padding alone."""
        lengths = _numbers(spatial)
        (_check_once if all(type(n) is int for n in lengths) else _check)(self, lengths)

    def out_size(self, spatial: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Spatial size of the output."""
        return tuple(
            _out_length(*lengths, self.ceil_mode)
            for lengths in zip(
                _numbers(spatial), self.kernel_size, self.stride, self.padding, self.dilation, strict=True
            )
        )

    @property
    def cells(self) -> Window:
        """Cells of `stride` pixels that tile the map that is gathered at stride one; the last of a line may be smaller.

        Examples
        --------
        >>> Window.of(3, 2, 1, dims=2).cells.kernel_size
        (2, 2)
        """
        zeros, ones = (0,) * self.dims, (1,) * self.dims
        return Window(self.stride, self.stride, zeros, ones, ceil_mode=True)

    def gathered_size(self, spatial: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
        """Spatial size of the map that is gathered at stride one.

        Examples
        --------
        >>> Window.of(2, dims=2).gathered_size((24, 24))
        (23, 23)
        """
        size = replace(self, stride=(1,) * self.dims, ceil_mode=False).out_size(spatial)
        if not self.ceil_mode:
            return size
        last = self.out_size(spatial)
        return tuple(torch.sym_max(n, (o - 1) * s + 1) for n, o, s in zip(size, last, self.stride, strict=True))

    def best(self, score: Tensor) -> Tensor:
        """Where the highest score of every window is, the first of equals: flat indices (N, g, *out)."""
        return self._maxima(score)[1]

    def highest(self, x: Tensor) -> Tensor:
        """Highest number of every window, (N, C, *out): torch's own max pooling."""
        if self.dims == 1 and torch.compiler.is_compiling():  # without indices, its graph is for one length
            return self._maxima(x)[0]
        highest: Tensor = _MAX_POOL[self.dims](
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )
        return highest

    def _maxima(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maxima: tuple[Tensor, Tensor] = _MAX_POOL[self.dims](
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, return_indices=True
        )
        return maxima

    def places(self) -> list[tuple[int, ...]]:
        """Every place in the window, in the order in which torch looks at them, as offsets in pixels."""
        steps = (range(0, k * d, d) for k, d in zip(self.kernel_size, self.dilation, strict=True))
        return list(itertools.product(*steps))

    def views(self, x: Tensor, fill: float, out: tuple[int, ...] | None = None) -> Iterator[Tensor]:
        """For every place in the window, in order, what is there in all windows: views of (N, C, *out)."""
        out = self.out_size(x.shape[2:]) if out is None else out
        x = self.padded(x, fill, out)
        for place in self.places():
            view = x
            for dim, (i, s, o) in enumerate(zip(place, self.stride, out, strict=True), start=2):
                view = view.narrow(dim, i, (o - 1) * s + 1)
                if s > 1:
                    view = view[(slice(None),) * dim + (slice(None, None, s),)]
            yield view

    def padded(self, x: Tensor, fill: float, out: tuple[int, ...]) -> Tensor:
        """Give x with its padding, as far as windows of (N, C, *out) reach; x itself where there is none."""
        if not self.ceil_mode and not any(self.padding):  # by the options, not by the size: an export is for any size
            return x
        pads = [n for side in reversed(self.sides(x.shape[2:], out)) for n in side]
        return F.pad(x, pads, value=fill)

    def sides(self, spatial: torch.Size | tuple[int, ...], out: tuple[int, ...]) -> list[tuple[int, int]]:
        """How much padding lies before and after every axis, as far as windows of (N, C, *out) reach.

        Examples
        --------
        >>> Window.of(3, 2, 1, ceil_mode=True, dims=1).sides((6,), (4,))
        [(1, 2)]
        """
        sizes = (_numbers(spatial), self.kernel_size, self.stride, self.padding, self.dilation, out)
        return [
            (p, torch.sym_max(0, (o - 1) * s + d * (k - 1) + 1 - p - n))
            for n, k, s, p, d, o in zip(*sizes, strict=True)
        ]

    def starts(self, spatial: torch.Size | tuple[int, ...], out: tuple[int, ...], device: torch.device) -> Tensor:
        """Flat index of the first place of every window, of the shape `out`; negative where that is padding."""
        first = torch.zeros((), dtype=torch.int64, device=device)
        for o, s, p, n in zip(out, self.stride, self.padding, spatial, strict=True):
            first = first[..., None] * n + (torch.arange(o, device=device) * s - p)
        return first

    def offsets(self, spatial: torch.Size | tuple[int, ...], device: torch.device) -> Tensor:
        """How far every place lies behind the first in the flat index, shape (places,)."""
        flat = []
        for place in self.places():
            offset = 0
            for i, n in zip(place, spatial, strict=True):
                offset = offset * n + i
            flat.append(offset)
        return torch.tensor(flat, device=device)


class Pool(nn.Module):
    """Base of the layers: a window, a generator to draw from (torch's own where None), and how they are shown.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, ceil_mode
        As in ``nn.MaxPool2d``.

    Examples
    --------
    >>> class Plain2d(Pool, dims=2):
    ...     pass
    >>> Plain2d(3, 2)
    Plain2d(kernel_size=(3, 3), stride=(2, 2), padding=(0, 0), dilation=(1, 1), ceil_mode=False)
    """

    dims: int
    shown: ClassVar[tuple[str, ...]] = ()  # attributes that were asked for besides the window

    def __init_subclass__(cls, dims: int | None = None, **rest: Any) -> None:
        """Take the number of dimensions, and show a signature that names what `*sizes` and `**window` stand for."""
        super().__init_subclass__(**rest)
        if dims is not None:
            cls.dims = dims
        positional: list[inspect.Parameter] = []
        options: dict[str, inspect.Parameter] = {}
        for base in cls.__mro__:
            if "__init__" in vars(base):
                parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]  # without self
                positional += [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
                options |= {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
                if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                    break
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*positional, *options.values()]
        )

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.window = Window.of(kernel_size, stride, padding, dilation, ceil_mode, dims=self.dims)
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Any:
        """Pool x; for torch.fx the layer is a leaf, as torch's own are."""
        if isinstance(x, torch.fx.Proxy):
            return x.tracer.create_proxy("call_module", x.tracer.path_of_module(self), (x,), {})
        return self.pool(x)

    def pool(self, x: Tensor) -> Any:
        """Pool x (N, C, *spatial) or (C, *spatial)."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Give what was asked for besides the window, for `repr`."""
        return {name: getattr(self, name) for name in self.shown}

    def extra_repr(self) -> str:
        """Show what was asked for, as the layers of torch do."""
        return ", ".join(f"{name}={value}" for name, value in {**asdict(self.window), **self.options()}.items())


def widened(x: Tensor) -> Tensor:
    """Give x in float32 where its own type is narrower, for sums and products that would overflow or round."""
    return x.float() if torch.finfo(x.dtype).bits < 32 else x


def one_a_dimension(name: str, value: Size, dims: int, *, least: int) -> tuple[int, ...]:
    """Read sizes that are given as one number or one for each dimension; refuse others by `name`."""
    sizes = tuple(value) if isinstance(value, tuple | list) else (value,)
    sizes = sizes * dims if len(sizes) == 1 else sizes
    if len(sizes) != dims or any(not isinstance(s, Integral) or s < least for s in sizes):
        raise InputError(f"{name} must be an int or {dims} ints, at least {least} each, got {value!r}")
    return tuple(int(s) for s in sizes)


def _check(window: Window, spatial: tuple[int, ...]) -> None:
    out = window.out_size(spatial)
    if min(spatial) < 1 or min(out) < 1:
        raise InputError(f"input of size {tuple(spatial)} is too small for windows of {window.kernel_size}")
    sizes = (spatial, window.kernel_size, window.stride, window.padding, window.dilation, out)
    for n, k, s, p, d, m in zip(*sizes, strict=True):
        if p and d > 1 and not all(any(0 <= o * s - p + i * d < n for i in range(k)) for o in range(m)):
            raise InputError(
                f"padding={window.padding} with dilation={window.dilation} leaves windows without a pixel of an input "
                f"of size {tuple(spatial)}"
            )


_check_once = lru_cache(maxsize=1024)(_check)


def _numbers(spatial: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
    """Sizes as numbers also where torch.jit traces them, which it does for one size."""
    return tuple(int(n) if isinstance(n, Tensor) else n for n in spatial)


def _out_length(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    reach = n + 2 * p - d * (k - 1) - 1
    if not ceil_mode:
        return reach // s + 1
    # a window must start inside the input or its left padding
    return torch.sym_min((reach + s - 1) // s + 1, (n + p - 1) // s + 1)
