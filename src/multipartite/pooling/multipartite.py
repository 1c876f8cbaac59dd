"""Multipartite pooling: gather, then choose by the score of a pixel what stays; Alg. 3 and beyond."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import Self

from multipartite.criteria import Energy
from multipartite.errors import InputError
from multipartite.instance_ranking import Fold, by_images, score_map
from multipartite.pooling import native
from multipartite.pooling.choose import (
    Choice,
    draw,
    draw_lines,
    expectation,
    expected_lines,
    pick,
    soft_weights,
    weighted_mean,
)
from multipartite.pooling.gather import check_gather, max_at, origins
from multipartite.pooling.gather import gather as gather_map
from multipartite.pooling.learning import Seen, SupervisedLayer
from multipartite.pooling.window import Size, Window

__all__ = ["MultipartitePool1d", "MultipartitePool2d", "MultipartitePool3d", "multipartite_pool"]

GATHER, ASSIGNMENT = "blur", "stochastic"  # what the evidence recommends; see results/
LEARN_EVERY, REFIT_EVERY = 10, 80  # statistics then take a fortieth of LeNet's step; see docs/performance.md

Learn = Callable[[Seen], Fold | None]  # learns from what is seen, and says what scores a pixel of it


def multipartite_pool(
    x: Tensor,
    factor: Tensor | Fold | None,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    groups: int = 1,
    gather: str | None = "auto",
    assignment: str = ASSIGNMENT,
    temperature: float = 1.0,
    focus: float | Tensor = 0.0,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    r"""Pool in two steps: gather at stride one, then choose by the scores, all channels of a group from one pixel.

    *Gather*: with `gather` None the map is x itself, and a window of it is pooled. Else every pixel first takes
    something from the window around it, at stride one (see :func:`multipartite.functional.gather`), and the cells of
    `stride` pixels that tile the gathered map are pooled. The output has the size of ``F.max_pool2d`` with the same
    arguments either way.

    *Choose*: a pixel with channels x scores C_M(x) = ||F^T x||^2 (Eq. 3, folded). In every window or cell,

    - ``hard`` keeps the pixel with the highest score, the first of equals;
    - ``soft`` takes the mean weighted by softmax(score / (temperature * mean score of the window));
    - ``stochastic`` draws, in training, one pixel with probability proportional to score^(1/temperature), and
      takes the expectation of that in evaluation;
    - ``lines`` keeps rows and columns of the whole map. Along an axis of n lines of which m stay, line i has the
      density (1 - focus)/n + focus * (its share in the sum of scores); in training one line a stratum of 1/m is
      drawn, in evaluation the expectation is taken. An axis of stride 1 keeps all its lines.

    ``gather=None, assignment="hard"`` is Alg. 3 as printed; ``gather="max", assignment="hard"`` with equal scores
    is max pooling.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations; one to three spatial dimensions, batched unless `kernel_size` is a tuple that says otherwise.
    factor : Tensor of shape (groups, C // groups, r), Fold or None
        From :func:`multipartite.instance_ranking.fold`. None, or a group whose factor is zero, scores by energy
        ||x||^2.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As in ``F.max_pool2d``; with ``gather="max"`` indices name, channel by channel, where the maximum came from.
    groups : int
        Number of groups where `factor` is None.
    gather : {"auto", "blur", "max", "average", "stochastic", None}
        What a pixel takes from its window first; "auto" is "blur", or "max" where indices are asked for or the stride
        is one.
    assignment : {"stochastic", "lines", "hard", "soft"}
        What becomes of the scored map.
    temperature : float > 0
        For `soft` and `stochastic`; infinite is uniform.
    focus : float in [0, 1), or Tensor of shape (groups,)
        For `lines`; 0 is uniform.
    training : bool
        Whether `stochastic` and `lines` draw.
    generator : torch.Generator, optional
        What they draw from.

    Returns
    -------
    Tensor of shape (N, C, *out), and the indices of the same shape if `return_indices`

    Examples
    --------
    >>> x = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 0.0]]]])
    >>> multipartite_pool(x, torch.tensor([[[1.0], [0.0]]]), 2, gather=None, assignment="hard").flatten()
    tensor([2., 0.])
    """
    folded = Fold.quadratic(factor) if isinstance(factor, Tensor) else factor
    window = Window.for_input(x, kernel_size, stride, padding, dilation, ceil_mode)
    if isinstance(focus, str):
        raise InputError(f"focus must be a number in [0, 1), or a tensor of one a group, got {focus!r}")
    choice = Choice(assignment, temperature, 0.5 if isinstance(focus, Tensor) else focus)
    gather = _settled(gather, window, choice, return_indices)
    groups = groups if folded is None else len(folded.factor)

    x, batched = window.as_batch(x)
    pooled = _pool(
        x,
        _learned_before(folded),
        window,
        gather,
        choice,
        lambda: focus,
        groups,
        return_indices,
        training,
        generator,
        at_once=training,
    )
    return pooled if batched else _first(pooled)


def _pool(
    x: Tensor,
    learn: Learn,
    window: Window,
    how: str | None,
    choice: Choice,
    focus: Callable[[], Any],
    groups: int,
    return_indices: bool,
    training: bool,
    generator: torch.Generator | None,
    at_once: bool = True,
) -> Any:
    """Gather and choose, for a batch (N, C, *spatial); `focus` is asked for after `learn`, which may teach it."""
    if _by_kernel(x, window, how, choice, return_indices):
        steps = native.steps_of(window, how, tuple(x.shape[2:]))
        folded = None if choice.blind else learn(_seen(x, window, how))
        pooled = native.pool(
            x,
            steps,
            choice=choice,
            focus=focus(),
            fold=folded,
            groups=groups,
            training=training,
            generator=generator,
        )
        if pooled is not None:
            return pooled
        learn = _learned_before(folded)
    rest = (learn, window, how, choice, focus, groups, return_indices, training, generator)
    return _pool_by_operations(x, *rest) if at_once else by_images(lambda part: _pool_by_operations(part, *rest), x)


def _by_kernel(x: Tensor, window: Window, how: str | None, choice: Choice, return_indices: bool) -> bool:
    """Whether the compiled kernel can pool x, as far as can be told before its numbers are looked at."""
    plain = how in (None, "max", "blur") and choice.assignment != "soft" and not return_indices
    return plain and native.handles(x, window)


def _seen(x: Tensor, window: Window, how: str | None) -> Seen:
    return Seen(x) if how is None else Seen(x, window, how)


def _learned_before(folded: Fold | None) -> Learn:
    return lambda seen: folded


def _pool_by_operations(
    x: Tensor,
    learn: Learn,
    window: Window,
    how: str | None,
    choice: Choice,
    focus: Callable[[], Any],
    groups: int,
    return_indices: bool,
    training: bool,
    generator: torch.Generator | None,
) -> Any:
    """Gather and choose by torch's operations, on any device, in any precision, in any graph."""
    cells = window if how is None else window.cells
    size = tuple(x.shape[2:]) if how is None else window.gathered_size(x.shape[2:])
    out = window.out_size(x.shape[2:])
    whole = [how is not None and s == 1 for s in window.stride]  # axes along which the stride leaves no choice
    picks = choice.assignment == "hard" or (training and choice.draws)
    # values and gradient are needed where something is chosen, and nowhere else: then the map need not be held whole
    sparse = picks and how == "max" and (choice.blind or (x.requires_grad and torch.is_grad_enabled()))

    y = x if how is None else None
    if how is not None and not sparse:
        y = gather_map(x, window, how, training=training, generator=generator)

    if choice.blind:
        scores = torch.zeros((), dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
        scores = scores.expand(x.shape[0], groups, *size)
    else:
        seen = Seen(x.detach(), window) if y is None else Seen(y if choice.assignment == "soft" else y.detach())
        scores = _scores(seen, learn(seen), groups=groups, ordinal=choice.assignment == "hard")

    if not picks:
        if return_indices:
            raise InputError(
                f"assignment {choice.assignment!r} mixes pixels in evaluation: there are no indices to return"
            )
        assert y is not None
        if choice.assignment == "lines":
            return expected_lines(y, scores, out, focus(), whole)
        if choice.assignment == "soft":
            return weighted_mean(y, soft_weights(scores, cells, choice.temperature), cells)
        return expectation(y, scores, cells, temperature=choice.temperature)

    if choice.assignment == "hard":
        chosen = cells.best(scores)
    elif choice.assignment == "lines":
        chosen = draw_lines(scores, out, focus(), whole, generator)
    else:
        chosen = draw(scores, cells, temperature=choice.temperature, generator=generator)
    if how == "max":
        values = max_at(x, window, chosen, size, y)
        return (values, origins(x, window, chosen)) if return_indices else values
    assert y is not None
    values = pick(y, chosen, distinct=choice.assignment != "lines" and not cells.overlaps)
    return (values, chosen.repeat_interleave(x.shape[1] // groups, dim=1)) if return_indices else values


def _settled(how: str | None, window: Window, choice: Choice, return_indices: bool) -> str | None:
    """Say how to gather, where that is left open; refuse an unknown way, and indices where there are none."""
    if how == "auto":
        how = "max" if return_indices or max(window.stride) == 1 else GATHER
    check_gather(how)
    if return_indices and choice.assignment == "soft":
        raise InputError("assignment 'soft' mixes pixels: return_indices must be False")
    if return_indices and how not in (None, "max"):
        raise InputError(f"gather {how!r} mixes pixels: return_indices must be False")
    return how


def _scores(seen: Seen, folded: Fold | None, *, groups: int, ordinal: bool) -> Tensor:
    return by_images(lambda part: score_map(seen.of(part), folded, groups=groups, ordinal=ordinal), seen.x)


def _first(pooled: Any) -> Any:
    return tuple(part[0] for part in pooled) if isinstance(pooled, tuple) else pooled[0]


class _Ready(NamedTuple):
    """What a layer is ready for, and with which factor and settings."""

    pooling: native.Ready
    factor: Tensor | None
    settings: tuple[Any, ...]

    def serves(self, layer: _MultipartitePool) -> bool:
        """Whether it is still what the layer would do."""
        return layer.factor is self.factor and layer._settings() == self.settings


# by layer, and not in it: it is neither to be copied nor to be saved with the layer
_READY: weakref.WeakKeyDictionary[_MultipartitePool, _Ready] = weakref.WeakKeyDictionary()


class _Chosen:
    """A field of a layer's choice, which may be set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        return self if layer is None else getattr(layer.choice, self.name)

    def __set__(self, layer: Any, value: Any) -> None:
        choice = replace(layer.choice, **{self.name: value})
        scored = not choice.blind and not isinstance(layer.form, Energy)
        if (scored and not layer.learns) or (choice.trusts and not layer.trusts):
            raise InputError(
                f"this layer was made without what {self.name}={value!r} has to learn: make it with that option"
            )
        layer.choice = choice


class _MultipartitePool(SupervisedLayer):
    assignment = _Chosen()
    temperature = _Chosen()
    focus = _Chosen()

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        *,
        num_classes: int | None = None,
        num_channels: int | None = None,
        gather: str | None = "auto",
        assignment: str = ASSIGNMENT,
        criterion: str = "kl",
        projection: str = "fisher",
        groups: int = 1,
        temperature: float = 1.0,
        focus: float | str = "auto",
        momentum: float = 0.05,
        learn_every: int = LEARN_EVERY,
        refit_every: int = REFIT_EVERY,
        max_rows: int | None = 2048,
        rank: int | str | None = "auto",
        process_group: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        choice = Choice(assignment, temperature, focus)
        super().__init__(
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            num_classes=num_classes,
            num_channels=num_channels,
            criterion=criterion,
            projection=projection,
            groups=groups,
            momentum=momentum,
            learn_every=learn_every,
            refit_every=refit_every,
            max_rows=max_rows,
            rank=rank,
            process_group=process_group,
            device=device,
            dtype=dtype,
            learns=not choice.blind,
            trusts=choice.trusts,
        )
        self.gather = _settled(gather, self.window, choice, return_indices)
        self.choice, self.return_indices = choice, return_indices

    @classmethod
    def printed(cls, *sizes: Any, **options: Any) -> Self:
        """Make the layer that the paper prints, Alg. 3 to the letter: nothing is gathered, the best pixel stays.

        Examples
        --------
        >>> pool = MultipartitePool2d.printed(2, num_classes=10)
        >>> pool.gather, pool.assignment
        (None, 'hard')
        """
        for name in ("gather", "assignment"):
            if name in options:
                raise InputError(f"the printed algorithm has no choice of {name}: use {cls.__name__}({name}=...)")
        return cls(*sizes, **{"rank": None, **options}, gather=None, assignment="hard")

    def pool(self, x: Tensor) -> Any:
        """Pool x; in training, learn from the labels of :func:`multipartite.supervise` first."""
        settled = not (self.fitting or torch.compiler.is_compiling())
        learn = self._learned
        if settled and (ready := _READY.get(self)) is not None and ready.serves(self) and ready.pooling.takes(x):
            if self.training and self.learns and not self.choice.blind:
                self.observe(_seen(x, self.window, self.gather))
                learn = self._known
            if ready.serves(self):  # what was learned may have changed it
                pooled = ready.pooling(x, self.generator)
                if pooled is not None:
                    return pooled
        x, batched = self.window.as_batch(x)
        self._check_channels(x.shape[1])
        pooled = _pool(
            x,
            learn,
            self.window,
            self.gather,
            self.choice,
            self._focus,
            self.groups,
            self.return_indices,
            self.training,
            self.generator,
            at_once=self.training or self.fitting,
        )
        if settled and batched:
            self._prepare(x)
        return pooled if batched else _first(pooled)

    def _prepare(self, x: Tensor) -> None:
        """Be ready for maps like x, where the kernel pools them."""
        _READY.pop(self, None)
        knows = self.informed or not self.learns or self.choice.blind
        if knows and _by_kernel(x, self.window, self.gather, self.choice, self.return_indices):
            steps = native.steps_of(self.window, self.gather, tuple(x.shape[2:]))
            pooling = native.Ready(
                x, steps, self.choice, self._focus(), self.fold(), self.groups, training=self.training
            )
            if pooling.lasts:
                _READY[self] = _Ready(pooling, self.factor, self._settings())

    def _settings(self) -> tuple[Any, ...]:
        """Name what decides how a map is pooled, but for the numbers of the factor."""
        how = (self.window, self.gather, self.choice, self.groups, self.return_indices)
        return (*how, self.informed, self.kept, self.training)

    def _learned(self, seen: Seen) -> Fold | None:
        """Learn from the map, where there is something to learn; then say what scores a pixel of it."""
        if self.learns and (self.training or self.fitting):
            self.observe(seen)
        elif self.learns and not self.informed and not torch.compiler.is_compiling():
            if self.num_channels is None:
                self.allocate(seen.x.shape[1], seen.x.device)
            self._warn_if_new()
        return self._known(seen)

    def _known(self, seen: Seen) -> Fold | None:
        """Say what scores a pixel, as far as it has been learned."""
        return self.fold(keep=self.choice.assignment == "soft")

    def _focus(self) -> Any:
        """Share of the lines that goes where the scores are, a number or one a group."""
        if self.choice.focus != "auto":
            return self.choice.focus
        return 0.0 if self.trust is None else self.trust

    def score(self, x: Tensor) -> Tensor:
        """Score of every pixel of the gathered map of x (N, C, *spatial), one map a group: (N, groups, *gathered)."""
        y = x if self.gather is None else gather_map(x, self.window, self.gather)
        return score_map(y, self.fold(), groups=self.groups)

    def _check_channels(self, channels: int) -> None:
        if self.num_channels is not None and channels != self.num_channels:
            raise InputError(
                f"this layer has learned from {self.num_channels} channels, got {channels}: "
                "maps of another width need a layer of their own"
            )
        if channels % self.groups:
            raise InputError(f"channels must be divisible by groups={self.groups}, got {channels}")

    def options(self) -> dict[str, Any]:
        """Give what was asked for besides the window."""
        names = ("num_classes", "num_channels", "gather", "assignment", "criterion", "projection", "groups")
        shown = {name: getattr(self, name) for name in names}
        return {**shown, "temperature": float(self.temperature), "focus": self.focus}


class MultipartitePool1d(_MultipartitePool, dims=1):
    """Multipartite pooling of (N, C, L); see :class:`MultipartitePool2d`.

    Examples
    --------
    >>> MultipartitePool1d(2, num_classes=3).window.dims
    1
    """


class MultipartitePool2d(_MultipartitePool, dims=2):
    """Multipartite pooling of (N, C, H, W), a drop-in for ``nn.MaxPool2d``; see :func:`multipartite_pool`.

    The defaults are what the evidence recommends. The algorithm as the paper prints it is
    ``MultipartitePool2d.printed(...)``.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode
        As in ``nn.MaxPool2d``.
    num_classes : int, optional
        How many classes the labels tell apart; not needed where no score of classes is looked at.
    num_channels : int, optional
        Known from the first forward or by ``load_state_dict`` where not given.
    gather : {"auto", "blur", "max", "average", "stochastic", None}
        What a pixel takes from the window around it before anything is chosen: smoothed maxima ("blur"), the maximum,
        the mean or a draw; None is the paper. "auto" is "blur", or "max" where indices are asked for or the stride is
        one, which leaves nothing to choose.
    assignment : {"stochastic", "lines", "hard", "soft"}
        What becomes of the scored map; "hard" is the paper's Alg. 3.
    criterion : str
        How far a class is from the others, a name of :func:`multipartite.criteria.for_rows`; "energy" needs no
        labels.
    projection : {"fisher", "orthogonal", "penalised"}
        Which directions tell the classes apart, see :mod:`multipartite.projection`.
    groups : int
        Blocks of channels, each with its own projection and its own pick; 1 is the paper.
    temperature : float
        For "soft" and "stochastic"; infinite is uniform.
    focus : float in [0, 1) or "auto"
        For "lines": which share of the lines goes where the scores are; "auto" is what the layer has learned.
    momentum : float in [0, 1)
        Share of the statistics that a batch forgets.
    learn_every : int
        Which batches the statistics look at: every so manieth, and every one with a refit. It stands for those that are
        passed over, with as many times the pixels and as many times the forgetting.
    refit_every : int
        How many batches lie between two refits of the factor.
    max_rows : int, optional
        At most how many pixels the statistics look at, times the batches that the one at hand stands for; others every
        time; None for all.
    rank : int, "auto" or None
        How many directions make a quadratic score ("kl", "bhattacharyya"): "auto" as many as 99% of the picks need, see
        :func:`multipartite.instance_ranking.leading`; None all, as `printed` does.
    process_group
        Among whose processes the statistics are shared; all by default.

    Examples
    --------
    >>> import multipartite as mp
    >>> pool = mp.MultipartitePool2d(2, num_classes=10)
    >>> images, labels = torch.rand(8, 4, 6, 6), torch.arange(8)
    >>> with mp.supervise(labels):
    ...     pool(images).shape
    torch.Size([8, 4, 3, 3])
    """


class MultipartitePool3d(_MultipartitePool, dims=3):
    """Multipartite pooling of (N, C, D, H, W); see :class:`MultipartitePool2d`.

    Examples
    --------
    >>> MultipartitePool3d(2, num_classes=3).window.dims
    3
    """
