"""One name for every pooling, so that a network is written once for all of them; open to everybody's own.

Nothing here imports torch until a layer is made: a mistyped name is answered at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from multipartite.errors import InputError, unknown
from multipartite.registry import Registry, refer
from multipartite.words import Word

if TYPE_CHECKING:
    from torch import nn

__all__ = ["POOLINGS", "Factory", "Pooling", "available", "create", "find", "register"]

Factory: TypeAlias = "Callable[..., nn.Module]"  # (kernel_size, stride, padding, **options) -> layer

_GIVEN = {"kernel_size", "stride", "padding", "num_classes"}


@dataclass(frozen=True)
class Pooling:
    """How the layers of one pooling are made.

    Attributes
    ----------
    factory : str, callable or mapping of int to callable
        A reference ``module:Name{dims}d`` to what makes the layers; a callable that makes layers of two dimensions; or
        a callable for each number of dimensions.
    supervised : bool
        Whether it is told ``num_classes``.
    """

    factory: str | Factory | Mapping[int, Factory]
    supervised: bool = False

    def layer(self, name: str, dims: int) -> Factory:
        """Give what makes the layers of `dims` dimensions."""
        if isinstance(self.factory, str):
            return refer(self.factory.format(dims=dims), "pooling", {})
        made: Mapping[int, Factory] = self.factory if isinstance(self.factory, Mapping) else {2: self.factory}
        if dims not in made:
            known = " or ".join(map(str, sorted(made)))
            raise InputError(f"pooling {name!r} exists in {known} dimensions, not in {dims}")
        return made[dims]


_OURS = "multipartite.pooling.multipartite:MultipartitePool{dims}d"
POOLINGS: Registry[Pooling] = Registry(
    "pooling",
    {
        "average": Pooling("torch.nn:AvgPool{dims}d"),
        "blur": Pooling("multipartite.pooling.blur:BlurPool{dims}d"),
        "fractional": Pooling("multipartite.pooling.fractional:FractionalPool{dims}d"),
        "gated": Pooling("multipartite.pooling.gated:GatedPool{dims}d"),
        "lip": Pooling("multipartite.pooling.lip:LIPPool{dims}d"),
        "lp": Pooling("multipartite.pooling.lp:LPPool{dims}d"),
        "max": Pooling("torch.nn:MaxPool{dims}d"),
        "mixed": Pooling("multipartite.pooling.mixed:MixedPool{dims}d"),
        "multipartite": Pooling(_OURS, supervised=True),
        "multipartite-printed": Pooling(f"{_OURS}.printed", supervised=True),
        "s3": Pooling("multipartite.pooling.s3:S3Pool{dims}d"),
        "softpool": Pooling("multipartite.pooling.softpool:SoftPool{dims}d"),
        "stochastic": Pooling("multipartite.pooling.stochastic:StochasticPool{dims}d"),
        "strided": Pooling("multipartite.pooling.strided:StridedPool{dims}d"),
    },
)


def available() -> list[str]:
    """Names that `create` knows.

    Examples
    --------
    >>> "max" in available()
    True
    """
    return sorted(POOLINGS)


def register(name: str, factory: str | Factory | Mapping[int, Factory], *, supervised: bool = False) -> None:
    """Add a pooling of one's own, by the name that words then use.

    Parameters
    ----------
    name : str
        A new name.
    factory : callable, mapping of int to callable, or str
        Makes a layer from ``(kernel_size, stride, padding, **options)``: a class or function for two dimensions, one
        for each number of dimensions, or ``"package.module:Name{dims}d"`` for classes Name1d, Name2d, ...
    supervised : bool
        Whether it wants ``num_classes`` too.

    Examples
    --------
    >>> from torch import nn
    >>> register("power", lambda kernel, stride, padding, norm=2.0: nn.LPPool2d(norm, kernel, stride))
    >>> create("power:norm=4", 2, num_classes=10)
    LPPool2d(norm_type=4, kernel_size=2, stride=None, ceil_mode=False)
    >>> POOLINGS.remove("power")
    """
    POOLINGS.add(name, Pooling(factory, supervised))


def find(name: str) -> Pooling:
    """Look a pooling up by its name or as ``package.module:attribute``, a class or function for two dimensions.

    Such an attribute is told ``num_classes`` if it has a parameter of that name.

    Examples
    --------
    >>> find("multipartite").supervised
    True
    """
    if ":" not in name:
        return POOLINGS[name]
    made = refer(name, "pooling", POOLINGS)
    if isinstance(made, Pooling):
        return made
    if not callable(made):
        raise InputError(f"pooling {name!r} must be a class or function that makes a layer, got {type(made).__name__}")
    return Pooling(made, "num_classes" in inspect.signature(made).parameters)


def create(
    word: str | Word,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] | None = None,
    padding: int | tuple[int, ...] = 0,
    *,
    num_classes: int,
    dims: int = 2,
    **options: Any,
) -> nn.Module:
    """Build a pooling layer by its name; supervised ones are told the number of classes.

    Parameters
    ----------
    word : str or Word
        A name of :func:`available`, or a word with options, which give way to `options`.
    kernel_size, stride, padding
        As in ``nn.MaxPool2d``.
    num_classes : int
        How many classes the network tells apart; only supervised poolings look at it.
    dims : int
        1, 2 or 3 spatial dimensions.
    **options
        Further keyword arguments of the layer, such as ``groups=4``.

    Examples
    --------
    >>> create("max", 2, num_classes=10)
    MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    word = Word.parse(word) if isinstance(word, str) else word
    if dims not in (1, 2, 3):
        raise InputError(f"dims must be 1, 2 or 3, got {dims!r}")
    options = {**dict(word.options), **options}
    pooling = find(word.name)
    layer = pooling.layer(word.name, dims)
    parameters = inspect.signature(getattr(layer, "__self__", layer)).parameters  # of the class that a method makes
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        known = [name for name in parameters if name not in _GIVEN]
        for option in options:
            if option not in known:
                raise unknown(f"option of pooling {word.name!r}:", option, known)
    if pooling.supervised:
        options["num_classes"] = num_classes
    return layer(kernel_size, stride, padding, **options)
