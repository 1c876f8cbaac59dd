"""Layers that learn from labelled activations how to score a pixel: what they keep, and when it changes.

A layer keeps class statistics and the factor that was folded out of them, as buffers that come into being when the
number of channels is known. In training every batch with labels adds to the statistics, and now and then the factor
is refitted. Many processes join what they saw with one exchange of O(c d + d^2) numbers a refit.
"""

from __future__ import annotations

import itertools
import math
import numbers
import random
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Self

from multipartite.criteria import Energy, Quadratic, row_form
from multipartite.errors import InputError, unknown, warn
from multipartite.instance_ranking import Fold, fold_by, is_exporting, leading
from multipartite.labels import Labels, current_labels, plain_labels, read_labels
from multipartite.pooling import native
from multipartite.pooling.gather import gather
from multipartite.pooling.sharing import GroupHandle, Pending
from multipartite.pooling.window import Pool, Size, Window
from multipartite.projection import METHODS, explained, supervised_projection
from multipartite.statistics import ClassStatistics, Moments

__all__ = ["Seen", "SupervisedLayer"]

_HANDLES = itertools.count()
_LAYERS: weakref.WeakValueDictionary[int, SupervisedLayer] = weakref.WeakValueDictionary()
_PENDING = ("count", "mean", "scatter")
_DISTRIBUTED = dist.is_available()


@dataclass
class Seen:
    """What a layer looks at: a map, or what is gathered from it, which is made when it is needed whole.

    Attributes
    ----------
    x : Tensor of shape (N, C, *spatial)
        The map.
    window : Window or None
        In which something is gathered; None where the map is looked at as it is.
    how : {"max", "blur"}
        What is gathered.
    """

    x: Tensor
    window: Window | None = None
    how: str = "max"

    @property
    def steps(self) -> native.Steps:
        """How the map that is looked at comes about."""
        size = tuple(self.x.shape[2:])
        if self.window is None:
            return native.steps_of(Window.of(1, dims=len(size)), None, size)
        return native.steps_of(self.window, self.how, size)

    @property
    def spatial(self) -> tuple[int, ...]:
        """Spatial size of what is looked at."""
        return tuple(self.x.shape[2:]) if self.window is None else self.steps.scored

    def of(self, images: Tensor) -> Tensor:
        """Look at some of the images."""
        return images if self.window is None else gather(images, self.window, self.how)

    def whole(self) -> Tensor:
        """Look at all of them, once.

        Examples
        --------
        >>> Seen(torch.tensor([[[1.0, 3.0, 2.0, 0.0]]]), Window.of(2, dims=1)).whole()
        tensor([[[3., 3., 2.]]])
        """
        self.x, self.window = self.of(self.x), None
        return self.x


class SupervisedLayer(Pool):
    """Base of layers that learn, from labelled activations, how to score a pixel.

    In training, every `learn_every`-th batch with labels updates the statistics, which forget at the rate `momentum` a
    batch; every `refit_every` batches the projection is computed anew and folded into ``factor``. Evaluation uses the
    factor as it is. Buffers move with the layer, but never to less than float32. The parameters are those of
    :class:`multipartite.MultipartitePool2d`; `learns` tells whether scores are looked at at all.
    """

    factor: Tensor | None
    offset: Tensor | None
    log_prior: Tensor | None
    updates: Tensor | None
    trust: Tensor | None
    statistics: ClassStatistics | None

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None,
        padding: Size,
        dilation: Size,
        ceil_mode: bool,
        *,
        num_classes: int | None,
        num_channels: int | None,
        criterion: str,
        projection: str,
        groups: int,
        momentum: float,
        learn_every: int,
        refit_every: int,
        max_rows: int | None,
        rank: int | str | None,
        process_group: Any,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        learns: bool = True,
        trusts: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding, dilation, ceil_mode)
        self.form = row_form(criterion)
        self.learns = learns and not isinstance(self.form, Energy)
        self.trusts = trusts
        if num_classes is not None or self.learns:
            _check_whole("num_classes", num_classes, least=2)
        _check_whole("groups", groups, least=1)
        if not 0 <= momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {momentum}")
        _check_whole("learn_every", learn_every, least=1)
        _check_whole("refit_every", refit_every, least=1)
        if max_rows is not None:
            _check_whole("max_rows", max_rows, least=1)
        if rank is not None and rank != "auto":
            _check_whole("rank", rank, least=1)
        if projection not in METHODS:
            raise unknown("projection", projection, METHODS)
        self.num_classes, self.groups = num_classes, groups
        self.criterion, self.projection = criterion, projection
        self.momentum, self.max_rows, self.rank = momentum, max_rows, rank
        self.learn_every, self.refit_every = learn_every, refit_every
        self.num_channels: int | None = None
        self.steps = 0  # mirrors the buffer `updates` without asking the device
        self.informed = False  # every group's factor is known not to be zero
        self.kept = 0  # columns of the factor up to the last that is not zero
        self.refused = 0  # batches with NaN or infinite activations
        self.fitting = False  # learn in evaluation mode too, and refit every time
        for name in ("factor", "offset", "log_prior", "updates", "trust"):
            self.register_buffer(name, None)
        self.statistics = None
        self.pending: Pending | None = None
        self._unseen: Tensor | int = 0  # refused batches on a device that nobody has waited for yet
        self._warned = False
        self._group = GroupHandle(process_group)
        self._factory: dict[str, Any] = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        self._handle = _register(self)
        if num_channels is not None:
            self.allocate(num_channels)

    # What is kept

    def allocate(self, num_channels: int, device: torch.device | None = None) -> None:
        """Make the buffers for `num_channels` channels."""
        if num_channels % self.groups:
            raise InputError(f"num_channels must be divisible by groups={self.groups}, got {num_channels}")
        self.num_channels = num_channels
        if not self.learns:
            return
        assert self.num_classes is not None
        d, c = num_channels // self.groups, self.num_classes
        where: Any = {"device": device or self._factory["device"]}
        dtype = torch.promote_types(self._factory["dtype"], torch.float32)
        r = self.form.rank(d, c)
        # buffers that are made in inference mode could never be trained
        with nullcontext() if torch.compiler.is_compiling() else torch.inference_mode(False):
            self.statistics = ClassStatistics(c, num_channels, groups=self.groups, **where)
            self.factor = torch.zeros(self.groups, d, r, dtype=dtype, **where)
            self.updates = torch.zeros((), dtype=torch.int64, **where)
            if self.form.has_offset:
                self.offset = torch.zeros(self.groups, 1, r, dtype=dtype, **where)
                self.log_prior = torch.zeros(r, dtype=dtype, **where)
            if self.trusts:
                self.trust = torch.zeros(self.groups, dtype=dtype, **where)

    @property
    def allocated(self) -> bool:
        """Whether the number of channels is known."""
        return self.num_channels is not None

    def deallocate(self) -> None:
        """Forget the number of channels too: the layer is as it was before it met any."""
        self.num_channels, self.statistics, self.pending = None, None, None
        self.factor = self.offset = self.log_prior = self.updates = self.trust = None
        self.steps, self.informed, self.kept = 0, False, 0

    def fold(self, *, keep: bool = False) -> Fold | None:
        """Return what scores a pixel now; None where that is its energy.

        Parameters
        ----------
        keep : bool
            Whether a gradient will need it later, when a refit may have written over it.
        """
        factor = self.factor
        if factor is None:
            return None
        # while a training step is traced, the factor that it will meet is not known yet
        unknown_yet = self.training and torch.compiler.is_compiling()
        if not unknown_yet and 0 < self.kept < factor.shape[-1]:
            factor = factor[..., : self.kept]
        factor = factor.clone() if keep and torch.is_grad_enabled() else factor
        informed = None if unknown_yet else self.informed
        return Fold(factor, self.offset, self.log_prior, None, self.form, informed)

    @property
    def frozen(self) -> bool:
        """Whether the layer keeps its factor alone and learns no more."""
        return self.factor is not None and self.statistics is None

    def freeze(self) -> None:
        """Keep what scores a pixel, drop what only learning needs."""
        self.statistics = self.updates = self.pending = None

    def reset(self) -> None:
        """Forget everything that was learned."""
        if self.statistics is not None:
            self.statistics.reset()
        for buffer in (self.factor, self.offset, self.log_prior, self.updates, self.trust):
            if buffer is not None:
                buffer.zero_()
        self.steps, self.informed, self.kept, self.pending = 0, False, 0, None

    def remember(self) -> Callable[[], None]:
        """Keep a copy of what was learned, and return a function that puts it back."""
        channels, steps, pending = self.num_channels, self.steps, self.pending
        copies = {name: buffer.clone() for name, buffer in self.named_buffers()}

        def put_back() -> None:
            if channels is None:
                self.deallocate()
            for name, buffer in self.named_buffers():
                buffer.copy_(copies[name])
            self.steps, self.pending = steps, pending
            self.look()

        return put_back

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        def keep_float32(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            low = moved.is_floating_point() and torch.finfo(moved.dtype).bits < 32
            return tensor.to(moved.device) if low else moved

        probe = fn(torch.empty(0, dtype=self._factory["dtype"], device=self._factory["device"]))
        self._factory.update(device=probe.device, dtype=probe.dtype)
        super()._apply(keep_float32, recurse)  # type: ignore[no-untyped-call]
        if self.pending is not None:
            self.pending.statistics._apply(fn)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.pending is not None:  # no buffers: what one process saw is not to be copied into the others
            for name in _PENDING:
                destination[f"{prefix}pending.{name}"] = getattr(self.pending.statistics, name).detach().clone()
            counts = (self.pending.kept, self.pending.turns, self.pending.missing)
            destination[f"{prefix}pending.turns"] = torch.tensor(counts, dtype=torch.float64)

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
        pending = [state_dict.pop(f"{prefix}pending.{name}", None) for name in (*_PENDING, "turns")]
        if came is not None and self.learns:
            if not self._make_room(came, state_dict.get(f"{prefix}statistics.count")):
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
            if self.trust is not None:  # a state of another kind of layer says nothing of it
                state_dict.setdefault(f"{prefix}trust", torch.zeros_like(self.trust))
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, alien, errors)
        if self.factor is not None and not self.factor.is_meta:
            self.steps = 0 if self.updates is None else int(self.updates)
            self.look()
        self.pending = None
        if self.statistics is not None and all(part is not None for part in pending):
            count, mean, scatter, (kept, turns, lacking) = pending
            self.pending = Pending(self.statistics.empty(), float(kept), int(turns), int(lacking))
            self.pending.statistics.add(Moments(*(part.to(self.statistics.mean) for part in (count, mean, scatter))))

    def _make_room(self, factor: Tensor, count: Tensor | None) -> bool:
        """Make the buffers for a factor that is being loaded; whether it fits, and if not nothing changes."""
        new = self.num_channels is None
        if (count is not None and len(count) != self.num_classes) or factor.shape[0] != self.groups:
            return False
        if new:
            self.allocate(factor.shape[0] * factor.shape[1])
        assert self.factor is not None
        fits = self.factor.shape == factor.shape
        if new and not fits:
            self.deallocate()
        elif fits and self.frozen and count is not None:
            self.allocate(factor.shape[0] * factor.shape[1], self.factor.device)  # a state that learns thaws the layer
        return fits

    def look(self) -> None:
        """Find out whether every group's factor is worth using, and how many of its columns are."""
        if self.factor is None:
            self.informed, self.kept = False, 0
        else:
            self._look_at(self.factor)

    def _look_at(self, factor: Tensor) -> None:
        used = (factor != 0).any(1)  # [g, r]
        self.informed = bool(used.any(1).all())
        cut = self.informed and isinstance(self.form, Quadratic)  # to others a column of zeros may mean something
        self.kept = int(used.any(0).nonzero().amax()) + 1 if cut else factor.shape[-1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._handle = _register(self)

    # When it changes

    def observe(self, activations: Tensor | Seen) -> None:
        """Learn from a batch of activations (N, C, *spatial), or what is seen of them, if there are labels for it."""
        seen = Seen(activations) if isinstance(activations, Tensor) else activations
        if self._passes_over(len(seen.x)):
            return
        new = self.num_channels is None
        if new:
            self.allocate(seen.x.shape[1], seen.x.device)
        if self.factor is None:
            return
        if torch.compiler.is_compiling():
            if is_exporting():
                raise InputError("a layer in training mode cannot be exported: call model.eval() first")
            _observe(seen.whole().detach(), self._handle, self.factor, self.offset, self.log_prior, self.trust)
            return
        try:
            self._learn(seen, self.factor, self.offset, self.log_prior, self.trust)
        except Exception:
            if new:
                self.deallocate()  # what cannot be used does not decide the channels either
            raise

    def _passes_over(self, images: int) -> bool:
        """Count a batch that is not learned from, where nothing else is to be done about it; whether that was so.

        Most batches are of this kind: what :meth:`_learn` does with them, by a short way.
        """
        if torch.compiler.is_compiling() or self.fitting or self.pending is not None or self._counts(self.steps):
            return False
        if self.statistics is None or self.updates is None or self._shared() or torch._C._current_graph_task_id() != -1:
            return False
        assert self.num_classes is not None
        if plain_labels(self.num_classes) != images:
            return False
        self.steps += 1
        self.updates.add_(1)
        return True

    def _learn(self, seen: Seen, *buffers: Tensor | None) -> None:
        if torch._C._current_graph_task_id() != -1:
            return  # inside a backward pass: a checkpointed forward that is computed again
        if self.frozen:
            return
        given, shared = current_labels(), self._shared()
        if given is None:
            self._warn("got no labels in training and learns nothing")
            if not shared:
                return
        if self.statistics is None or self.updates is None:  # what a compiled step makes is there only after it
            raise InputError(
                "a compiled training step cannot make the layer's buffers: give num_channels, or run one batch through "
                "the model before torch.compile"
            )
        if seen.x.is_meta:
            return
        turns = self._turns()
        # which refuses wrong ones, whether used or not
        labels = None if given is None else self._labels(seen, an_image=given[0].ndim == 1)
        if labels is not None and _is_at_hand(seen.x) and labels.empty:
            labels = None
        if shared:  # keep what this process saw apart until all processes join it
            self.pending = self.pending or Pending(self.statistics.empty())
        target = self.statistics if self.pending is None else self.pending.statistics
        kept = (1 - self.momentum) ** turns
        learned = labels is not None and turns > 0 and self._take_in(seen, labels, turns, kept, target)
        if not shared and (labels is None or (turns and not learned)):
            return
        step = self.steps
        self.steps += 1
        self.updates.add_(1)
        if self.pending is not None and shared:
            self.pending.turns += 1
            self.pending.missing += given is None
        if not turns:
            return
        if not learned:
            target.decay(1 - kept)
        if self.pending is not None:
            self.pending.kept *= kept
        if step % self.refit_every == 0 or self.fitting:
            self._refuse(int(self._unseen))
            self._unseen = 0
            if self.join():
                self.refit(*buffers)

    def _turns(self) -> int:
        """For how many batches the one at hand is to stand: those since the last that was learned from; 0 for none.

        Every `learn_every`-th is learned from, and every one with a refit. It depends on the number of the batch alone,
        so a resumed run learns from the same ones.
        """
        if self.fitting:
            return 1
        if not self._counts(self.steps):
            return 0
        return next(n for n in range(1, self.steps + 2) if n > self.steps or self._counts(self.steps - n))

    def _counts(self, step: int) -> bool:
        """Whether the layer learns from the batch of this number."""
        return step % self.learn_every == 0 or step % self.refit_every == 0

    def join(self) -> bool:
        """Join what this process has seen since the last refit with what the others saw; whether there are labels.

        All processes must call it together. They do at every refit; before one of them writes a checkpoint for all,
        call it too, and nothing is lost.
        """
        pending, self.pending = self.pending, None
        if pending is None:
            return True
        assert self.statistics is not None
        joined = pending.join(self.statistics.mean, self.process_group) if self._shared() else pending.statistics
        if joined is None:
            return False
        self.statistics.decay(1 - pending.kept).merge(joined)
        return True

    def _labels(self, seen: Seen, an_image: bool) -> Labels:
        assert self.num_classes is not None
        # of labels an image, only the number of dimensions counts, which is sooner told
        labels = read_labels(self.num_classes, seen.x.shape[2:] if an_image else seen.spatial, seen.x.device)
        assert labels is not None
        if len(labels) != len(seen.x):
            raise InputError(f"labels must be as many as images, got {len(labels)} labels for a batch of {len(seen.x)}")
        return labels

    @torch.no_grad()
    def _take_in(self, seen: Seen, labels: Labels, turns: int, kept: float, target: ClassStatistics) -> bool:
        """Let the statistics forget, and learn from a batch; whether there was something to learn from."""
        places = self._places(len(seen.x), seen.spatial, turns)
        plain = labels.soft is None and labels.weight is None and not labels.a_pixel
        simple = plain and native.handles(seen.x, self.window)
        if simple and native.learn(seen.x, seen.steps, labels.index, places, kept, target):
            return True
        batch = self._summary(seen.whole(), labels, places)
        if batch is None:
            return False
        target.decay(1 - kept)
        for moments in batch:
            target.add(moments)
        return True

    def _summary(self, x: Tensor, labels: Labels, places: slice) -> list[Moments] | None:
        """Moments of one batch, or None where it has no labelled rows or holds NaN or infinity."""
        assert self.statistics is not None
        x, labels = x.flatten(2)[:, :, places], labels.at(places)  # [N, C, L]
        batch = list(self.statistics.moments(x, labels))
        if not batch:
            return None
        finite = torch.isfinite(torch.stack([m.scatter.sum() + m.mean.sum() for m in batch]).sum())
        if not _is_at_hand(finite):  # looking would wait for the device: look at a refit
            self._unseen = self._unseen + ~finite
            return [Moments(*(torch.where(finite, part, 0) for part in m)) for m in batch]
        if not finite and bool(torch.isfinite(x).all()):  # only their squares are too large
            batch = list(self.statistics.moments(x.double(), labels))
        elif not finite:
            self._refuse(1)
            return None
        return batch if any(m.number.sum() > 0 for m in batch) else None

    def _refuse(self, batches: int) -> None:
        if batches:
            self.refused += batches
            warn(
                f"{type(self).__name__}: refused a batch with NaN or infinite activations ({self.refused} so far); "
                "statistics and factor stay as they were"
            )

    def _places(self, images: int, spatial: tuple[int, ...], turns: int) -> slice:
        """Which pixels to look at, the same in every image: every k-th from a random one on.

        They are `max_rows` at the most, for every batch for which this one stands.

        Every pixel is as likely as any other, and a slice is a view: nothing is copied, nor asked of a device.
        """
        pixels = math.prod(spatial)
        if self.max_rows is None or self.max_rows * turns >= images * pixels:
            return slice(None)
        step = -(-pixels // max(1, self.max_rows * turns // images))
        while math.gcd(step, spatial[-1]) > 1:  # else the same columns in every line
            step += 1
        return slice(random.Random(self.steps).randrange(min(step, pixels)), None, step)

    @torch.no_grad()
    def refit(self, *buffers: Tensor | None) -> None:
        """Compute projection and factor anew from the statistics (Alg. 1), in float64."""
        assert self.statistics is not None
        # from where the last one ended: the factor has its directions, and a resumed run has the factor
        start = self.factor.to(self.statistics.mean) if self.informed and self.factor is not None else None
        with self.statistics.held():
            A = supervised_projection(self.statistics, self.projection, start=start)
            folded = leading(self.statistics, fold_by(self.form, self.statistics, A), self.rank)
            trust = None if self.trust is None else explained(self.statistics, A)
        values = (folded.factor, folded.offset, folded.log_prior, trust)
        for buffer, value in zip(
            buffers or (self.factor, self.offset, self.log_prior, self.trust), values, strict=True
        ):
            if buffer is not None and value is not None:
                buffer.copy_(value)
        self._look_at(folded.factor)

    @property
    def process_group(self) -> Any:
        """Among whose processes the statistics are shared; None for all."""
        return self._group.group

    def _shared(self) -> bool:
        return _DISTRIBUTED and dist.is_initialized() and dist.get_world_size(self.process_group) > 1

    def _warn_if_new(self) -> None:
        if self.updates is not None and not self.updates.is_meta and int(self.updates) == 0:
            self._warn("has seen no labels yet")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warn(
                f"{type(self).__name__} {what}: run the forward inside `with multipartite.supervise(labels):`, or "
                "fit a trained model with `multipartite.fit(model, loader)`; until then a pixel's energy ranks it"
            )


def _check_whole(name: str, value: object, *, least: int) -> None:
    if not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be at least {least}, a whole number, got {value!r}")


def _is_at_hand(tensor: Tensor) -> bool:
    """Whether looking at a tensor does not mean to wait for a device."""
    return tensor.device.type == "cpu"


def _register(layer: SupervisedLayer) -> int:
    handle = next(_HANDLES)
    _LAYERS[handle] = layer
    return handle


@torch.library.custom_op("multipartite::observe", mutates_args=("factor", "offset", "log_prior", "trust"))
def _observe(
    x: Tensor,
    handle: int,
    factor: Tensor,
    offset: Tensor | None,
    log_prior: Tensor | None,
    trust: Tensor | None,
) -> None:
    """Learn from a batch, as one opaque step of a compiled graph."""
    _LAYERS[handle]._learn(Seen(x), factor, offset, log_prior, trust)


@_observe.register_fake
def _(
    x: Tensor,
    handle: int,
    factor: Tensor,
    offset: Tensor | None,
    log_prior: Tensor | None,
    trust: Tensor | None,
) -> None:
    return None
