"""Replace the pooling layers of any model, and put them back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeVar, overload

import torch
from torch import nn

from multipartite.errors import InputError, warn
from multipartite.pooling import registry
from multipartite.pooling.adaptive import adapt
from multipartite.pooling.fitting import call, in_evaluation
from multipartite.pooling.learning import SupervisedLayer
from multipartite.pooling.selection import Selector, by_identity, dimensions, poolings, reason_to_stay, selectors
from multipartite.pooling.weights import WeightedPool
from multipartite.pooling.window import Pool
from multipartite.words import Places, Word

__all__ = ["Plan", "Replacement", "convert", "revert"]

Model = TypeVar("Model", bound=nn.Module)

# what a layer says of its window besides kernel_size, stride and padding, and what goes without saying
_EXTRAS = {"dilation": 1, "ceil_mode": False, "return_indices": False}
# layers that give as many channels as they get
_SAME_CHANNELS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardswish,
    nn.Identity, nn.Dropout, nn.Dropout2d, nn.LocalResponseNorm, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, Pool,
)  # fmt: skip
# a user's hooks live in these; shared with the new layer, so that their handles still remove them
_HOOKS = [
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
]


class Replacement(NamedTuple):
    """What happens to one pooling layer.

    Attributes
    ----------
    names : tuple of str
        Every place where the model holds the layer.
    old : nn.Module
        The layer that is there.
    new : nn.Module or None
        What takes its place; None where it stays.
    reason : str
        Why it stays.
    """

    names: tuple[str, ...]
    old: nn.Module
    new: nn.Module | None
    reason: str = ""

    def __str__(self) -> str:
        fate = f"stays: {self.reason}" if self.new is None else f"-> {' '.join(str(self.new).split())}"
        return f"{' = '.join(name or '(the model itself)' for name in self.names)}: {self.old} {fate}"


class Plan(list[Replacement]):
    """What :func:`convert` would do, one line a pooling layer."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no pooling layers"


@overload
def convert(
    model: Model,
    num_classes: int,
    pooling: str = ...,
    *,
    only: Selector | Iterable[Selector] | None = ...,
    skip: Selector | Iterable[Selector] | None = ...,
    example: Any = ...,
    dry_run: Literal[False] = ...,
    **options: Any,
) -> Model: ...


@overload
def convert(
    model: nn.Module,
    num_classes: int,
    pooling: str = ...,
    *,
    only: Selector | Iterable[Selector] | None = ...,
    skip: Selector | Iterable[Selector] | None = ...,
    example: Any = ...,
    dry_run: Literal[True],
    **options: Any,
) -> Plan: ...


def convert(
    model: nn.Module,
    num_classes: int,
    pooling: str = "multipartite",
    *,
    only: Selector | Iterable[Selector] | None = None,
    skip: Selector | Iterable[Selector] | None = None,
    example: Any = None,
    dry_run: bool = False,
    **options: Any,
) -> Any:
    """Replace the max pooling layers of a model, in place; average and adaptive ones where `only` asks for them.

    A new layer takes over kernel, stride, padding, dilation, ceil_mode, return_indices, mode, hooks, and the
    device and dtype of the parameters before it. A layer that sits in several places is replaced by one layer in
    all of them. Either everything that was asked for is replaced, or an error leaves the model as it was.

    Parameters
    ----------
    model : nn.Module
        Any tree of modules. Calls such as ``F.max_pool2d`` inside a forward cannot be seen, nor replaced.
    num_classes : int
        How many classes the labels tell apart.
    pooling : str
        A name of :func:`multipartite.pooling.available`, with options or without: ``"multipartite:groups=4"``; or one
        word for each layer that is replaced, in their order: ``"max|multipartite:assignment=lines,focus=0.5"``.
    only : str, module class, or several of them, optional
        Which layers: by name (``"layer1.pool"``), by a part of the model that holds them (``"layer1"``), by a
        pattern (``"layer*.pool"``) or by class (``nn.AvgPool2d``). By default all max pooling. A global pooling
        layer (adaptive to size 1) is replaced only if its class or its full name is given.
    skip : like `only`, optional
        Which layers stay.
    example : Tensor, tuple of arguments or dict of them, optional
        Input for a dry run, which finds the channels of every new layer. Without it they are found where a layer that
        says how many channels it gives comes before it in an ``nn.Sequential``; else they are known from the first
        batch, and whatever copies the model before that (``AveragedModel``, DDP) copies a layer without statistics.
    dry_run : bool
        List what would be done, and do nothing.
    **options
        Keyword arguments of the new layers, such as ``assignment="stochastic"``.

    Returns
    -------
    nn.Module
        The model (another object only if the model itself is a pooling layer); with `dry_run` the :class:`Plan`.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 2), nn.AdaptiveAvgPool2d(1))
    >>> convert(model, 10, "stochastic", dry_run=True)
    1: MaxPool2d(kernel_size=3, stride=2, ...) -> StochasticPool2d(kernel_size=(3, 3), stride=(2, 2), ...)
    2: AdaptiveAvgPool2d(output_size=1) stays: only max pooling is replaced unless `only` asks for more
    >>> type(convert(model, 10)[1]).__name__
    'MultipartitePool2d'
    """
    chosen, left = selectors(model, "only", only), selectors(model, "skip", skip)
    found = [(*each, reason_to_stay(*each[:2], chosen, left)) for each in poolings(model)]
    places, leaving = Places.parse(pooling), sum(not reason for *_, reason in found)
    plan = Plan()
    for names, old, like, reason in found:
        new = None
        if not reason:
            word = places.at(sum(item.new is not None for item in plan), of=leaving)
            new = _successor(names[0], old, like, word, num_classes, options)
        plan.append(Replacement(names, old, new, reason))
    if dry_run:
        return plan
    if all(item.new is None for item in plan):
        _warn_of_nothing(model, plan)
    for item in plan:
        if item.new is not None:
            _take_over(item.new, item.old)
            model = _put(model, item.names, item.new)
    _allocate(model, [item.new for item in plan if isinstance(item.new, SupervisedLayer | WeightedPool)], example)
    return model


def revert(model: Model) -> Model:
    """Undo :func:`convert`, in place: every layer that it replaced comes back, with the mode of its successor.

    Layers that `convert` did not put there stay.

    Examples
    --------
    >>> model = convert(nn.Sequential(nn.MaxPool2d(2)), 10)
    >>> revert(model)
    Sequential(
      (0): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    )
    """
    reverted: Any = model
    found = False
    for names, module in by_identity(model):
        replaced = module.__dict__.get("_replaced")
        if replaced is not None:
            found = True
            reverted = _put(reverted, names, replaced[0].train(module.training))
    if not found:
        warn("revert found no layers that convert had put there")
    return reverted


def _successor(
    name: str, old: Any, like: torch.Tensor, pooling: Word, num_classes: int, options: dict[str, Any]
) -> nn.Module:
    dims = dimensions(old)
    assert dims is not None
    said = {key: getattr(old, key) for key, default in _EXTRAS.items() if getattr(old, key, default) != default}
    given = {**said, **options}
    supervised = registry.find(pooling.name).supervised
    if supervised:
        given = {"device": like.device, "dtype": like.dtype, **given}
    try:
        if hasattr(old, "output_size"):
            new = adapt(pooling, old.output_size, num_classes=num_classes, dims=dims, **given)
        else:
            window = (old.kernel_size, old.stride, old.padding)
            new = registry.create(pooling, *window, num_classes=num_classes, dims=dims, **given)
    except InputError as error:
        raise InputError(f"layer {name!r}, {old}, cannot become {str(pooling)!r}: {error}") from error
    return new if supervised else new.to(like.device, like.dtype)


def _take_over(new: nn.Module, old: nn.Module) -> None:
    new.train(old.training)
    for hooks in _HOOKS:
        setattr(new, hooks, getattr(old, hooks))
    new.__dict__["_replaced"] = [old]  # not a submodule: nothing walks into it


def _allocate(model: nn.Module, layers: list[SupervisedLayer | WeightedPool], example: Any) -> None:
    """Make the buffers and weights of new layers whose channels can be known now."""
    if example is not None:
        _met_by(model, layers, example)
        return
    for module in model.modules():
        if isinstance(module, nn.Sequential):
            channels: int | None = None
            for layer in module:
                if isinstance(layer, SupervisedLayer | WeightedPool) and layer in layers:
                    if channels is not None and not layer.allocated:
                        layer.allocate(channels)
                elif not isinstance(layer, _SAME_CHANNELS):
                    given = getattr(layer, "out_channels", getattr(layer, "num_features", None))
                    channels = given if isinstance(given, int) else None


def _met_by(model: nn.Module, layers: list[SupervisedLayer | WeightedPool], example: Any) -> None:
    """Run the model once in evaluation mode and let every layer take the channels that it meets."""

    def allocate(layer: nn.Module, args: tuple[Any, ...]) -> None:
        if isinstance(layer, SupervisedLayer | WeightedPool) and not layer.allocated:
            layer.allocate(args[0].shape[-layer.window.dims - 1], args[0].device)

    hooks = [layer.register_forward_pre_hook(allocate) for layer in layers]
    try:
        with torch.no_grad(), warnings.catch_warnings(), in_evaluation(model):
            warnings.filterwarnings("ignore", message=".*has seen no labels yet")
            call(model, example)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            if isinstance(layer, SupervisedLayer):
                layer._warned = False  # the dry run is not the user's


def _put(model: nn.Module, names: tuple[str, ...], new: nn.Module) -> nn.Module:
    for name in names:
        if not name:
            return new
        parent, _, leaf = name.rpartition(".")
        model.get_submodule(parent).add_module(leaf, new)
    return model


def _warn_of_nothing(model: nn.Module, plan: Plan) -> None:
    if any(isinstance(m, SupervisedLayer) for m in model.modules()):
        hint = "it has multipartite layers already, see multipartite.revert"
    elif plan:
        hint = f"of {len(plan)} pooling layers none was asked for, see dry_run=True"
    else:
        hint = "pooling by calls inside a forward, such as F.max_pool2d, has to be made a layer first"
    warn(f"convert found nothing to replace in {type(model).__name__}: {hint}")
