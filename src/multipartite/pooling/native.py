"""One pass in compiled code: gather, score and choose, image by image, where ``kernels.c`` was compiled.

The library is built when the package is installed on a machine with a C compiler (``hatch_build.py``). It pools maps of
float32 on a CPU, outside of graphs and transforms; everywhere else the operations of torch do the same, and they are
its oracle. Random numbers are torch's own either way, so that both ways draw alike. ``MULTIPARTITE_NATIVE=0`` in the
environment, or :func:`use`, leaves it out.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from multipartite.criteria import Information, Quadratic
from multipartite.instance_ranking import Fold, is_channels_last, is_eager, score_map
from multipartite.pooling.choose import Choice, uniform, uniform_like
from multipartite.pooling.smooth import GATHERED_WIDTH, smooth
from multipartite.pooling.window import Window
from multipartite.statistics import ClassStatistics

__all__ = [
    "Ready",
    "Steps",
    "available",
    "gathered",
    "handles",
    "learn",
    "max_at",
    "pool",
    "pool_channels",
    "steps_of",
    "use",
]

_POOL, _BACK, _CHANNELS = range(3)
_BLIND, _ENERGY, _QUADRATIC, _INFORMATION, _GIVEN = range(5)
_BEST, _DRAW, _DRAW_LINES, _EXPECTATION, _EXPECTED_LINES, _WHOLE, _MARKED = range(7)
_NARROW = 64  # columns of a factor with an offset up to which the kernel multiplies; torch does wider ones faster
_FORMS = {Quadratic: _QUADRATIC, Information: _INFORMATION}
_NOWHERE = 255  # the place of a number that no gradient reaches: where a number came from is kept in a byte

_VARIANTS = ("avx512", "avx2", "default")  # of the kernel, as hatch_build.py compiles it

_Triple = ctypes.c_int64 * 3


class _Window(ctypes.Structure):
    _fields_ = [(name, _Triple) for name in ("kernel", "stride", "padding", "dilation")]


class _Job(ctypes.Structure):
    """The struct of the same name in kernels.c, field by field."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("images", "channels", "groups")),
        *((name, _Triple) for name in ("size", "gathered", "out")),
        ("look", _Window),
        ("cells", _Window),
        *((name, ctypes.c_int64) for name in ("gathers", "smooths", "channels_last", "grad_last")),
        *((name, ctypes.c_int64) for name in ("scoring", "choice", "rank", "threads")),
        ("whole", _Triple),
        ("power", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("x", "factor", "offset", "log_prior", "scores")),
        ("uniform", ctypes.c_void_p * 3),
        *((name, ctypes.c_void_p) for name in ("focus", "values", "chosen", "places", "grad", "grad_x")),
    ]


class _Lesson(ctypes.Structure):
    """The struct of the same name in kernels.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("images", "channels", "groups", "classes")),
        *((name, _Triple) for name in ("size", "gathered")),
        ("look", _Window),
        *((name, ctypes.c_int64) for name in ("gathers", "smooths", "channels_last", "first", "step", "threads")),
        *((name, ctypes.c_void_p) for name in ("x", "labels")),
        ("kept", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("count", "mean", "scatter")),
    ]


def _runnable() -> tuple[str, ...]:
    """Variants of the kernel that this processor can run, by what torch says of it, the best first."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    return _VARIANTS[_VARIANTS.index(capability) :] if capability in _VARIANTS else _VARIANTS[-1:]


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """Load the best variant that was compiled, if any was."""
    return next((library for name in _runnable() if (library := _load(name)) is not None), None)


def _load(variant: str) -> ctypes.CDLL | None:
    try:  # torch has loaded the OpenMP that it asks for
        library = ctypes.CDLL(str(Path(__file__).with_name(f"kernels-{variant}.so")))
    except OSError:  # nothing was compiled
        return None
    library.multipartite_digest.restype = ctypes.c_char_p
    digest = hashlib.sha256(Path(__file__).with_name("kernels.c").read_bytes()).hexdigest()
    return library if library.multipartite_digest() == digest.encode() else None  # compiled from another source


_used = os.environ.get("MULTIPARTITE_NATIVE", "1") != "0"


def available() -> bool:
    """Whether there is a compiled kernel and it is to be used."""
    return _used and _library() is not None


@contextmanager
def use(used: bool) -> Iterator[None]:
    """Use the compiled kernel inside, or leave it out.

    Examples
    --------
    >>> with use(False):
    ...     available()
    False
    """
    global _used
    before, _used = _used, used
    try:
        yield
    finally:
        _used = before


def handles(x: Tensor, window: Window) -> bool:
    """Whether the kernel can pool x (N, C, *spatial): float32 on a CPU, in one of two layouts, outside of any graph."""
    return (
        is_eager(x)
        and torch.autograd.forward_ad._current_level < 0
        and type(x) in (Tensor, torch.nn.Parameter)
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() > 0
        and available()
        and max(math.prod(window.kernel_size), math.prod(window.stride)) < _NOWHERE
        and (x.is_contiguous() or is_channels_last(x))
        and x.numel() < 1 << 31
    )


class Steps(NamedTuple):
    """Which pixels are looked at, which map is scored, and what stays of it.

    Attributes
    ----------
    window, how
        In whose places what is gathered at stride one: the maximum, the smoothed maximum ("blur"), or nothing.
    cells : Window
        In which one pixel of the scored map stays.
    scored, out : tuple of int
        Spatial sizes of the scored map and of the output.
    whole : tuple of bool
        Axes that keep all their lines.
    """

    window: Window
    how: str | None
    cells: Window
    scored: tuple[int, ...]
    out: tuple[int, ...]
    whole: tuple[bool, ...]

    @classmethod
    def of(cls, window: Window, how: str | None, spatial: tuple[int, ...]) -> Steps:
        """Make the steps of a pooling, for maps of the size `spatial`.

        Examples
        --------
        >>> Steps.of(Window.of(2, dims=1), "max", (8,)).scored
        (7,)
        """
        gathers = how is not None
        cells = window.cells if gathers else window
        scored = window.gathered_size(spatial) if gathers else spatial
        whole = tuple(gathers and s == 1 for s in window.stride)  # the stride leaves no choice
        return cls(window, how, cells, scored, window.out_size(spatial), whole)

    @property
    def gathers(self) -> bool:
        """Whether anything is gathered."""
        return self.how is not None

    @property
    def smooths(self) -> bool:
        """Whether it is smoothed."""
        return self.how == "blur"

    def winners(self, spatial: tuple[int, ...]) -> list[tuple[int, ...]]:
        """How the bits of kernels.c's `winners` lie, the last axis first: places but the first, then rows.

        Examples
        --------
        >>> Steps.of(Window.of(2, dims=2), "blur", (8, 8)).winners((8, 8))
        [(1, 8), (1, 7)]
        """
        kernel, last = self.window.kernel_size, len(spatial) - 1
        return [(kernel[a] - 1, *spatial[:a], *self.scored[a:last]) for a in range(last, -1, -1)]


steps_of = lru_cache(maxsize=256)(Steps.of)


@dataclass
class Picks:
    """What the kernel picked.

    Attributes
    ----------
    values : Tensor of shape (N, C, *out)
        The numbers, in the layout of the map that they are from.
    chosen : Tensor of shape (N, groups, *out) or None
        Flat indices into the scored map; None where every window stands at its own place.
    places : Tensor of shape (N, *out, C), or (N, bytes) where all maxima have a gradient, or None
        In which place of the window around a chosen pixel every maximum was; None where it was the pixel itself. Where
        maxima are smoothed or all stay, the bits of kernels.c's `winners`, from which that follows for every pixel.
    """

    job: _Job
    values: Tensor
    chosen: Tensor | None = None
    places: Tensor | None = None


def pool(
    x: Tensor,
    steps: Steps,
    *,
    choice: Choice,
    focus: float | Tensor,
    fold: Fold | None,
    groups: int,
    training: bool,
    generator: torch.Generator | None,
) -> Tensor | None:
    """Pool x (N, C, *spatial); None where its numbers, not finite or too large to score, are for torch to deal with.

    Parameters
    ----------
    choice, focus
        What becomes of the scored map, and for lines how far they follow the scores.
    fold : Fold or None
        What scores a pixel; None by its energy.
    """
    return Ready(x, steps, choice, focus, fold, groups, training=training)(x, generator)


def _choose_by(
    choice: Choice, focus: float | Tensor, job: _Job, steps: Steps, kept: list[Tensor], *, training: bool
) -> bool:
    """Say what becomes of the scored map; whether pixels are picked."""
    picks = choice.assignment == "hard" or (training and choice.draws)
    if choice.assignment == "lines":
        job.choice = _DRAW_LINES if picks else _EXPECTED_LINES
        job.focus = _kept(focus if isinstance(focus, Tensor) else _same(float(focus), job.groups), kept)
        for axis, stays in enumerate(steps.whole, start=3 - len(steps.whole)):
            job.whole[axis] = stays
    else:
        job.choice = _BEST if choice.assignment == "hard" else _DRAW if picks else _EXPECTATION
        job.power = 1 / choice.temperature
    return picks


class Ready:
    """A pooling that is ready for maps like one that it has met: what there is to decide is decided.

    A layer calls it where a network takes a few milliseconds, of which deciding anew would be some hundredths. The
    numbers of the fold are read where they lie, so that a refit needs no new one.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        A map that :func:`handles` takes.
    steps, choice, focus, fold, groups, training
        As in :func:`pool`.

    Attributes
    ----------
    lasts : bool
        Whether it is for other maps too.

    Examples
    --------
    >>> x = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    >>> ready = Ready(x, steps_of(Window.of(2, dims=2), "max", (2, 2)), Choice("hard"), 0.0, None, 1)
    >>> ready.takes(x), ready.takes(x[..., :1])
    (True, False)
    """

    def __init__(
        self,
        x: Tensor,
        steps: Steps,
        choice: Choice,
        focus: float | Tensor,
        fold: Fold | None,
        groups: int,
        *,
        training: bool = False,
    ) -> None:
        self.shape, self.strides, self.steps = x.shape, x.stride(), steps
        self.job, self.kept = _job(x, steps, groups), list[Tensor]()
        _score_by(fold, x.detach(), self.job, choice, steps, self.kept)
        self.picks = _choose_by(choice, focus, self.job, steps, self.kept, training=training)
        self.places = _places_of(x, self.job, steps) if self.picks and steps.gathers else None
        read = () if fold is None or choice.blind else (fold.factor, fold.offset, fold.log_prior, focus)
        # scores that torch makes are those of one map, and what had to be copied would not change with a refit
        self.lasts = self.job.scoring != _GIVEN and all(
            any(part is one for one in self.kept) for part in read if isinstance(part, Tensor)
        )

    def takes(self, x: Tensor) -> bool:
        """Whether a map is like the one that this is ready for."""
        return (
            x.shape == self.shape
            and x.stride() == self.strides
            and type(x) is Tensor
            and x.dtype == torch.float32
            and x.is_cpu
            and available()
        )

    def __call__(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor | None:
        """Pool x; None where its numbers, not finite or too large to score, are for torch to deal with."""
        job, steps, kept = _Job.from_buffer_copy(self.job), self.steps, list[Tensor]()
        before = (job.images, job.groups)
        if job.choice == _DRAW_LINES:
            for axis, m in enumerate(steps.out, start=3 - len(steps.out)):
                if not job.whole[axis]:
                    job.uniform[axis] = _kept(uniform((*before, m), x, generator), kept)
        elif job.choice == _DRAW:
            job.uniform[0] = _kept(uniform((*before, *steps.out), x, generator), kept)
        # room for the flat index of every pixel that is chosen
        chosen = torch.empty((*before, *steps.out), dtype=torch.int32) if self.picks else None
        return _pooled(x, job, steps, _POOL, chosen=chosen, places=self.places)


def _score_by(fold: Fold | None, x: Tensor, job: _Job, choice: Choice, steps: Steps, kept: list[Tensor]) -> None:
    """Say what scores a pixel; a factor that is wide, or of a form of its own, multiplies by torch's operations."""
    job.scoring = _scoring(fold, choice)
    if fold is not None and job.scoring in _FORMS.values():
        job.rank = fold.factor.shape[-1]
        for name in ("factor", "offset", "log_prior"):
            if (part := getattr(fold, name)) is not None:
                setattr(job, name, _kept(part, kept))
    elif job.scoring == _GIVEN:
        y = x if steps.how is None else gathered(x, steps.window, steps.how, steps.scored)
        if y is not None:
            scores = score_map(y, fold, groups=job.groups, ordinal=choice.assignment == "hard")
            job.scores = _kept(scores, kept)


def _scoring(fold: Fold | None, choice: Choice) -> int:
    if choice.blind:
        return _BLIND
    told = [False] if fold is None else [True] if fold.informed else fold.tells_apart().tolist()
    if fold is None or not any(told):
        return _ENERGY
    narrow = fold.offset is None or fold.factor.shape[-1] <= _NARROW
    return _FORMS.get(type(fold.form), _GIVEN) if all(told) and narrow else _GIVEN


def gathered(x: Tensor, window: Window, how: str, size: tuple[int, ...]) -> Tensor | None:
    """Maximum of the window around every pixel ("max"), smoothed or not ("blur"); None if not finite."""
    steps = Steps(window, how, window, size, size, ())
    job = _job(x, steps, 1)
    job.choice = _WHOLE
    return _pooled(x, job, steps, _POOL, places=_places_of(x, job, steps))


def max_at(x: Tensor, window: Window, chosen: Tensor, size: tuple[int, ...]) -> Tensor | None:
    """Maximum of the window around every chosen pixel; None where numbers are not finite.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        A map that :func:`handles` takes.
    chosen : Tensor of shape (N, groups, *out)
        Flat indices into the gathered map.
    size : tuple of int
        Spatial size of the gathered map.
    """
    steps = Steps(window, "max", window.cells, size, tuple(chosen.shape[2:]), ())
    job = _job(x, steps, chosen.shape[1])
    job.choice = _MARKED
    return _pooled(x, job, steps, _POOL, chosen=chosen.int().contiguous(), places=_places_of(x, job, steps))


def pool_channels(
    x: Tensor, window: Window, out: tuple[int, ...], *, training: bool, generator: torch.Generator | None
) -> Tensor | None:
    """Pool channel by channel after Zeiler and Fergus; None where numbers are not finite."""
    steps = Steps(window, "max", window, tuple(x.shape[2:]), out, ())
    job, kept = _job(x, steps, 1), [x]
    if training:
        numbers = uniform_like(_room((*x.shape[:2], *out), x, channels_last=is_channels_last(x)), generator)
        kept.append(numbers)
        job.uniform[0] = numbers.data_ptr()
    return _pooled(x, job, steps, _CHANNELS, places=_places_of(x, job, steps) if training else None)


def learn(x: Tensor, steps: Steps, labels: Tensor, places: slice, kept: float, to: ClassStatistics) -> bool:
    """Let statistics forget a share and take in a batch; False, and nothing has changed, where torch is to do it.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial)
        Activations that :func:`handles` takes.
    steps : Steps
        How the map comes about that is learned from.
    labels : Tensor of shape (N,)
        Class indices.
    places : slice
        Which pixels, in the flat order of the map that is learned from.
    kept : float
        Share of what the statistics have seen before that still counts.
    """
    C, groups = x.shape[1], to.groups
    buffers = (to.count, to.mean, to.scatter)
    if C // groups > _NARROW or any(b.dtype != torch.float64 or not b.is_contiguous() for b in buffers):
        return False
    sizes = _sizes(tuple(x.shape), is_channels_last(x), steps, groups)
    first, _, step = places.indices(math.prod(steps.scored))
    labels = labels.contiguous()
    lesson = _Lesson(len(x), C, groups, len(to.count), sizes.size, sizes.gathered, sizes.look)
    lesson.gathers, lesson.smooths, lesson.channels_last = steps.gathers, steps.smooths, sizes.channels_last
    lesson.first, lesson.step = first, step
    lesson.threads, lesson.kept = min(torch.get_num_threads(), len(x)), kept
    lesson.x, lesson.labels = x.data_ptr(), labels.data_ptr()
    lesson.count, lesson.mean, lesson.scatter = (buffer.data_ptr() for buffer in buffers)
    library = _library()
    assert library is not None
    return bool(library.multipartite_learn(ctypes.byref(lesson)))


def _places_of(x: Tensor, job: _Job, steps: Steps) -> tuple[int, ...]:
    """Shape of what tells where numbers came from; see :class:`Picks`."""
    if steps.smooths or job.choice == _WHOLE:  # all maxima have a gradient, and not the chosen ones alone
        return (len(x), sum(map(math.prod, steps.winners(tuple(x.shape[2:])))) * _row_bytes(steps, x.shape[1]))
    return (len(x), *steps.out, x.shape[1])


def _pooled(
    x: Tensor,
    job: _Job,
    steps: Steps,
    what: int,
    *,
    chosen: Tensor | None = None,
    places: tuple[int, ...] | None = None,
) -> Tensor | None:
    """Run the kernel, and tie its picks to x where a gradient will be asked for; `places` is then the shape of them."""
    followed = x.requires_grad and torch.is_grad_enabled()
    if followed and chosen is None and places is None:
        return None  # a mean of pixels, whose gradient torch's operations know
    picks = Picks(job, _room((*x.shape[:2], *steps.out), x, channels_last=bool(job.channels_last)), chosen)
    job.x, job.values = x.data_ptr(), picks.values.data_ptr()
    if chosen is not None:
        job.chosen = chosen.data_ptr()
    if places is not None and followed:
        picks.places = torch.empty(places, dtype=torch.uint8)
        job.places = picks.places.data_ptr()
    if not _run(job, what):
        return None
    return _Picked.apply(x, picks, steps) if followed else picks.values  # type: ignore[no-untyped-call]


def _run(job: _Job, what: int) -> bool:
    library = _library()
    assert library is not None
    job.threads = min(torch.get_num_threads(), job.images)
    return bool(library.multipartite_run(ctypes.byref(job), what))


class _Picked(torch.autograd.Function):
    """Numbers that were picked out of x; the gradient of each goes to where it came from."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, picks: Picks, steps: Steps) -> Tensor:
        ctx.save_for_backward(picks.chosen, picks.places)
        ctx.job, ctx.steps, ctx.shape = picks.job, steps, x.shape
        return picks.values

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        chosen, places = ctx.saved_tensors
        if torch.is_grad_enabled():  # torch's operations know the gradient of this gradient too
            return _sent_back(grad, chosen, places, ctx.shape, ctx.steps), None, None
        job = _Job.from_buffer_copy(ctx.job)
        job.grad_last = is_channels_last(grad)
        grad = grad if job.grad_last else grad.contiguous()
        sent = _room(ctx.shape, grad, channels_last=bool(job.channels_last))
        job.grad, job.grad_x = grad.data_ptr(), sent.data_ptr()
        job.chosen = None if chosen is None else chosen.data_ptr()
        job.places = None if places is None else places.data_ptr()
        if not _run(job, _BACK):
            raise MemoryError("there is no room for an image beside its gradient")
        return sent, None, None


def _sent_back(grad: Tensor, chosen: Tensor | None, places: Tensor | None, shape: torch.Size, steps: Steps) -> Tensor:
    """Sum grad (N, C, *out) into zeros of `shape`, by torch's operations."""
    spatial, window = tuple(shape[2:]), steps.window
    if places is not None and places.ndim == 2:  # first to all maxima, smoothed or not, then from them
        if chosen is not None:
            before = replace(window, kernel_size=(1,) * window.dims, padding=(0,) * window.dims)
            size = torch.Size([*shape[:2], *steps.scored])
            grad = _sent_back(grad, chosen, None, size, steps._replace(window=before, how=None))
        if steps.smooths:
            nothing = torch.zeros_like(grad, requires_grad=True)
            (grad,) = torch.autograd.grad(smooth(nothing, GATHERED_WIDTH), nothing, grad, create_graph=True)
        return _credited(grad, places, spatial, steps)
    if places is None:
        assert chosen is not None
        origin = chosen.long().repeat_interleave(shape[1] // chosen.shape[1], 1)
    else:
        starts = window.starts(spatial, steps.out, grad.device).expand(len(grad), 1, *steps.out)
        if chosen is not None:
            still = replace(window, stride=(1,) * window.dims)
            starts = still.starts(spatial, steps.scored, grad.device).flatten()[chosen.long()]
        starts = starts.repeat_interleave(shape[1] // starts.shape[1], 1)
        reached = places != _NOWHERE
        offsets = window.offsets(spatial, grad.device)[torch.where(reached, places, 0).long()]
        origin = torch.where(reached.movedim(-1, 1), starts + offsets.movedim(-1, 1), 0)
        grad = torch.where(reached.movedim(-1, 1), grad, 0)
    zeros = grad.new_zeros(*shape[:2], math.prod(spatial))
    return zeros.scatter_add(2, origin.flatten(2), grad.flatten(2)).reshape(shape)


def _row_bytes(steps: Steps, channels: int) -> int:
    """How many bytes the bits of a row of the gathered map take."""
    return -(-steps.scored[-1] * channels // 8)


def _credited(grad: Tensor, bits: Tensor, spatial: tuple[int, ...], steps: Steps) -> Tensor:
    """Send the gradient (N, C, *gathered) of all maxima back to (N, C, *spatial), one axis after the other."""
    window, (N, C) = steps.window, grad.shape[:2]
    rows, parts = _row_bytes(steps, C), steps.winners(spatial)
    found = bits.split([math.prod(part) * rows for part in parts], dim=1)
    for axis, (part, packed) in enumerate(zip(reversed(parts), reversed(found), strict=True)):
        k, p, d, n = window.kernel_size[axis], window.padding[axis], window.dilation[axis], spatial[axis]
        unpacked = packed.reshape(N, *part, rows, 1) >> torch.arange(8, device=bits.device) & 1
        row = unpacked.flatten(-2)[..., : steps.scored[-1] * C].bool()
        later = row.unflatten(-1, (steps.scored[-1], C)).movedim(-1, 2).unbind(1)  # (N, C, *sizes) a place
        m, before, after = grad.shape[axis + 2], grad.shape[: axis + 2], grad.shape[axis + 3 :]
        sent = grad.new_zeros(*before, p + n + m + d * (k - 1), *after)  # padding included
        for place in range(k - 1, -1, -1):  # the last that beat those before it
            won = later[place - 1] if place else torch.ones_like(grad, dtype=torch.bool)
            slot = torch.arange(m, device=grad.device) + place * d
            sent = sent.index_add(axis + 2, slot, torch.where(won, grad, 0))
            grad = torch.where(won, 0, grad)
        grad = sent.narrow(axis + 2, p, n)
    return grad


def _job(x: Tensor, steps: Steps, groups: int) -> _Job:
    """Make a job for maps like x."""
    return _Job.from_buffer_copy(_sizes(tuple(x.shape), is_channels_last(x), steps, groups))


@lru_cache(maxsize=256)
def _sizes(shape: tuple[int, ...], channels_last: bool, steps: Steps, groups: int) -> _Job:
    """All of a job that follows from the shape of the map; axes that a map has not are of length 1 and keep it."""
    missing = 3 - len(steps.out)

    def triple(numbers: Sequence[int], fill: int) -> Any:
        return _Triple(*(fill,) * missing, *numbers)

    def as_window(w: Window) -> _Window:
        sizes = (triple(w.kernel_size, 1), triple(w.stride, 1), triple(w.padding, 0), triple(w.dilation, 1))
        return _Window(*sizes)

    job = _Job(images=shape[0], channels=shape[1], groups=groups)
    job.size, job.gathered, job.out = triple(shape[2:], 1), triple(steps.scored, 1), triple(steps.out, 1)
    job.look, job.cells = as_window(steps.window), as_window(steps.cells)
    job.gathers, job.smooths, job.channels_last = steps.gathers, steps.smooths, channels_last
    job.whole = triple((0,) * len(steps.out), 1)
    return job


def _room(shape: tuple[int, ...], like: Tensor, *, channels_last: bool) -> Tensor:
    """Room for a map of `shape`, of the type and on the device of another."""
    if not channels_last:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    if len(shape) == 4:
        return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
    return like.new_empty(shape[0], *shape[2:], shape[1]).movedim(-1, 1)


@lru_cache(maxsize=64)
def _same(value: float, count: int) -> Tensor:
    return torch.full((count,), value, dtype=torch.float32)


def _kept(tensor: Tensor, kept: list[Tensor]) -> int:
    """Address of a tensor that lies in one piece, in float32, and is kept until the kernel has run."""
    kept.append(tensor if tensor.dtype == torch.float32 and tensor.is_contiguous() else tensor.float().contiguous())
    return kept[-1].data_ptr()
