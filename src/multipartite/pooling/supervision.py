"""Learning in training: labelled activations update the statistics, and now and then the factor is refitted."""

from __future__ import annotations

import itertools
import math
import random
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from typing_extensions import Self

from multipartite.errors import InputError, unknown
from multipartite.folding import fold
from multipartite.pooling.distributed import GroupHandle, all_reduce
from multipartite.pooling.labels import current_labels, to_resolution
from multipartite.pooling.state import FactorState, check_whole
from multipartite.projection import METHODS, supervised_projection
from multipartite.statistics import ClassStatistics, Moments

__all__ = ["SupervisedLayer"]

_HANDLES = itertools.count()
_LAYERS: weakref.WeakValueDictionary[int, SupervisedLayer] = weakref.WeakValueDictionary()


class SupervisedLayer(FactorState):
    """Base of layers that learn, from labelled activations, how to score a pixel.

    In training, every batch with labels updates the statistics, which forget at the rate `momentum`; every
    `refit_every` updates the projection is computed anew and folded into ``factor``. Evaluation uses the factor
    as it is. The parameters are those of :class:`multipartite.MultipartitePool2d`.
    """

    def __init__(
        self,
        *,
        num_classes: int,
        num_channels: int | None,
        criterion: str,
        projection: str,
        groups: int,
        momentum: float,
        refit_every: int,
        max_rows: int | None,
        process_group: Any,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(num_classes, groups, criterion, device, dtype)
        if not 0 <= momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {momentum}")
        check_whole("refit_every", refit_every, least=1)
        if max_rows is not None:
            check_whole("max_rows", max_rows, least=1)
        if projection not in METHODS:
            raise unknown("projection", projection, METHODS)
        self.projection = projection
        self.momentum, self.refit_every, self.max_rows = momentum, refit_every, max_rows
        self._group = GroupHandle(process_group)
        self.refused = 0  # batches with NaN or infinite activations
        self._unseen: Tensor | int = 0  # such batches on a device that nobody has waited for yet
        self.settling = False  # learn in evaluation mode too, and refit every time
        self._warned = False
        self._pending: list[ClassStatistics] = []  # of this process alone, since the last refit
        self._kept = 1.0  # share of the statistics that the pending updates leave
        self._projection: list[Tensor] = []  # the last one, for a look at it
        self._handle = _register(self)
        if num_channels is not None:
            self.settle(num_channels)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        self._drop_pending()
        self._projection.clear()
        return super()._apply(fn, recurse)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._handle = _register(self)

    def reset(self) -> None:
        """Forget everything that was learned."""
        super().reset()
        self._drop_pending()
        self._projection.clear()

    def _drop_pending(self) -> None:
        self._pending.clear()
        self._kept = 1.0

    def observe(self, x: Tensor) -> None:
        """Learn from a batch of activations (N, C, *spatial), if there are labels for it."""
        new = self.num_channels is None
        if new:
            self.settle(x.shape[1], x.device)
        assert self.factor is not None
        if torch.compiler.is_compiling():
            if getattr(torch.compiler, "is_exporting", bool)():
                raise InputError("a layer in training mode cannot be exported: call model.eval() first")
            _observe(x.detach(), self._handle, self.factor, self.offset, self.log_prior)
            return
        try:
            self._learn(x.detach(), self.factor, self.offset, self.log_prior)
        except Exception:
            if new:
                self.unsettle()  # what cannot be used does not settle a layer either
            raise

    @torch.no_grad()
    def _learn(self, x: Tensor, *buffers: Tensor | None) -> None:
        if torch._C._current_graph_task_id() != -1:
            return  # inside a backward pass: a checkpointed forward that is computed again
        labels = current_labels()
        if labels is None:
            self._warn("got no labels in training and learns nothing")
            return
        if self.num_channels is None:  # what a compiled step makes is there only after it
            raise InputError(
                "a compiled training step cannot settle the layer: give num_channels, or run one batch through the "
                "model before torch.compile"
            )
        if self.statistics is None:
            raise InputError("this layer is frozen: it cannot learn any more; put it in eval mode")
        if x.is_meta:
            return
        batch = self._summary(x, labels)
        shared = self._shared()
        if batch is None and not shared:
            return
        self.steps += 1
        assert self.updates is not None
        self.updates += 1
        target = self.statistics
        if shared:  # keep what this process saw apart until all processes exchange it
            self._pending = self._pending or [self.statistics.empty()]
            target = self._pending[0]
            self._kept *= 1 - self.momentum
        target.decay(self.momentum)
        for moments in batch or ():
            target.add(moments)
        if (self.steps - 1) % self.refit_every == 0 or self.settling:
            if shared:
                joined = all_reduce(target, self.statistics.mean, self.process_group)
                self.statistics.decay(1 - self._kept).merge(joined)
                self._drop_pending()
            self._refuse(int(self._unseen))
            self._unseen = 0
            self.refit(*buffers)

    def _summary(self, x: Tensor, labels: Tensor) -> list[Moments] | None:
        """Moments of one batch, or None where it has no labelled rows or holds NaN or infinity."""
        assert self.statistics is not None
        labels = labels.to(x.device)
        labels = labels.reshape(1) if labels.ndim == 0 else labels
        if len(labels) != len(x):
            raise InputError(f"labels must be as many as images, got {len(labels)} labels for a batch of {len(x)}")
        a_pixel = labels.ndim == x.ndim - 1 and not labels.is_floating_point() and not self._one_hot(labels)
        if a_pixel:
            labels = to_resolution(labels, x.shape[2:]).flatten(1)  # [N, L]
        places = self._places(len(x), x.shape[2:])
        x = x.flatten(2)[:, :, places]  # [N, C, L]
        labels = labels[:, places] if a_pixel else labels
        if a_pixel:  # pixels become rows
            x, labels = x.transpose(1, 2).reshape(-1, x.shape[1]), labels.reshape(-1)
        batch = list(self.statistics.moments(x, labels))
        return self._screened(batch) if batch else None

    def _screened(self, batch: list[Moments]) -> list[Moments] | None:
        """Keep NaN and infinity out of the statistics; where looking would wait for the device, look at a refit."""
        finite = torch.isfinite(torch.stack([m.scatter.sum() + m.mean.sum() for m in batch]).sum())
        if not _is_at_hand(finite):
            self._unseen = self._unseen + ~finite
            return [Moments(*(torch.where(finite, part, 0) for part in m)) for m in batch]
        if not finite:
            self._refuse(1)
            return None
        return batch if any(m.number.sum() > 0 for m in batch) else None

    def _refuse(self, batches: int) -> None:
        if batches:
            self.refused += batches
            warnings.warn(
                f"{type(self).__name__}: refused a batch with NaN or infinite activations ({self.refused} so far); "
                "statistics and factor stay as they were",
                stacklevel=2,
            )

    def _one_hot(self, labels: Tensor) -> bool:
        return labels.ndim == 2 and labels.shape[1] == self.num_classes

    def _places(self, images: int, spatial: torch.Size) -> slice:
        """Which pixels to look at, the same in every image: every k-th from a random one on, `max_rows` at the most.

        Every pixel is as likely as any other, and a slice is a view: nothing is copied, nor asked of a device.
        """
        pixels = math.prod(spatial)
        if self.max_rows is None or self.max_rows >= images * pixels:
            return slice(None)
        step = -(-pixels // max(1, self.max_rows // images))
        while math.gcd(step, spatial[-1]) > 1:  # else the same columns in every line
            step += 1
        return slice(random.Random(self.steps).randrange(min(step, pixels)), None, step)

    @property
    def process_group(self) -> Any:
        """Among whose processes the statistics are shared; None for all."""
        return self._group.group

    def _shared(self) -> bool:
        return dist.is_available() and dist.is_initialized() and dist.get_world_size(self.process_group) > 1

    # Refitting

    @torch.no_grad()
    def refit(self, *buffers: Tensor | None) -> None:
        """Compute projection and factor anew from the statistics (Alg. 1), in float64."""
        assert self.statistics is not None
        # from where the last one ended: the factor has its directions, and a resumed run has the factor
        start = self.factor.to(self.statistics.mean) if self.informed and self.factor is not None else None
        A = supervised_projection(self.statistics, self.projection, start=start)
        self._projection[:] = [A]
        folded = fold(self.statistics, A, self.criterion)
        for buffer, value in zip(
            buffers or (self.factor, self.offset, self.log_prior),
            (folded.factor, folded.offset, folded.log_prior),
            strict=True,
        ):
            if buffer is not None and value is not None:
                buffer.copy_(value)
        self.informed = bool(folded.tells_apart().all())

    def _warn_if_new(self) -> None:
        if self.updates is None or (not self.updates.is_meta and int(self.updates) == 0):
            self._warn("has seen no labels yet")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__} {what}: run the forward inside `with multipartite.supervise(labels):`, or "
                "settle a trained model with `multipartite.fit(model, loader)`; until then a pixel's energy ranks it",
                stacklevel=2,
            )


def _is_at_hand(tensor: Tensor) -> bool:
    """Whether looking at a tensor does not mean to wait for a device."""
    return tensor.device.type == "cpu"


def _register(layer: SupervisedLayer) -> int:
    handle = next(_HANDLES)
    _LAYERS[handle] = layer
    return handle


@torch.library.custom_op("multipartite::observe", mutates_args=("factor", "offset", "log_prior"))
def _observe(x: Tensor, handle: int, factor: Tensor, offset: Tensor | None, log_prior: Tensor | None) -> None:
    """Learn from a batch, as one opaque step of a compiled graph."""
    _LAYERS[handle]._learn(x, factor, offset, log_prior)


@_observe.register_fake
def _(x: Tensor, handle: int, factor: Tensor, offset: Tensor | None, log_prior: Tensor | None) -> None:
    return None
