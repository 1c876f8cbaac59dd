"""Lightning: a callback that hands the labels of every training batch to the multipartite layers.

It works with both packages that Lightning comes in, ``lightning.pytorch`` and ``pytorch_lightning``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from multipartite.labels import supervise
from multipartite.pooling.fitting import labels_of

__all__ = ["Supervise"]


def _callbacks() -> tuple[Any, ...]:
    """Find the base class of a callback in every Lightning package that is installed."""
    found = []
    for name in ("lightning.pytorch", "pytorch_lightning"):
        with suppress(ModuleNotFoundError):
            found.append(importlib.import_module(name).Callback)
    if not found:
        raise ImportError("multipartite.integrations.lightning needs Lightning: pip install lightning")
    return tuple(found)


class Supervise(*_callbacks()):  # type: ignore[misc]
    """Supervise every training batch: ``Trainer(callbacks=[Supervise()])``.

    It opens :func:`multipartite.supervise` when a training batch starts and leaves it when the batch ends or
    training stops, for whatever reason. Validation and test batches are left alone: evaluation needs no labels.

    Parameters
    ----------
    labels : callable, optional
        Takes the labels out of a batch; by default
        :func:`multipartite.pooling.fitting.labels_of`. It may return None where there are none.

    Examples
    --------
    >>> callback = Supervise(lambda batch: batch["label"])
    >>> callback.labels({"label": 3})
    3
    """

    def __init__(self, labels: Callable[[Any], Any] = labels_of) -> None:
        super().__init__()
        self.labels = labels
        self._open = ExitStack()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Open the context."""
        self._open.close()  # a module may have skipped the end of a batch
        self._open.enter_context(supervise(self.labels(batch)))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Leave it."""
        self._open.close()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Leave it, where a batch was skipped."""
        self._open.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave it, whatever went wrong."""
        self._open.close()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leave it at the very end, too."""
        self._open.close()
