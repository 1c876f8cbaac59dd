"""Multipartite pooling (Alg. 3): in every window keep the pixel that tells most about the classes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from multipartite.errors import InputError, unknown
from multipartite.folding import Fold
from multipartite.pooling.assignment import ASSIGNMENTS, assign
from multipartite.pooling.score import score_map
from multipartite.pooling.supervision import SupervisedLayer
from multipartite.pooling.window import Size, Window

__all__ = ["MultipartitePool1d", "MultipartitePool2d", "MultipartitePool3d", "multipartite_pool"]


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
    assignment: str = "hard",
    temperature: float = 1.0,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    r"""Pool by the scores of the pixels, all channels of a group from one pixel (Alg. 3).

    A pixel with channels x scores C_M(x) = ||F^T x||^2 (Eq. 3, folded). In every window,

    - ``hard`` keeps the pixel with the highest score, the first of equals;
    - ``soft`` takes the mean weighted by softmax(score / (temperature * mean score of the window));
    - ``stochastic`` draws, in training, one pixel with probability proportional to score^(1/temperature), and
      takes the expectation of that in evaluation.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial) or (C, *spatial)
        Activations; one to three spatial dimensions, batched unless `kernel_size` is a tuple that says otherwise.
    factor : Tensor of shape (groups, C // groups, r), Fold or None
        From :func:`multipartite.folding.fold`. None, or a group whose factor is zero, scores by energy ||x||^2.
    kernel_size, stride, padding, dilation, ceil_mode, return_indices
        As in ``F.max_pool2d``.
    groups : int
        Number of groups where `factor` is None.
    assignment : {"hard", "soft", "stochastic"}
        What becomes of a scored window.
    temperature : float > 0
        For `soft` and `stochastic`; infinite is uniform.
    training : bool
        Whether `stochastic` draws.
    generator : torch.Generator, optional
        What `stochastic` draws from.

    Returns
    -------
    Tensor of shape (N, C, *out), and the indices of the same shape if `return_indices`

    Examples
    --------
    >>> x = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]], [[0.0, 3.0], [0.0, 0.0]]]])
    >>> multipartite_pool(x, torch.tensor([[[1.0], [0.0]]]), 2).flatten()
    tensor([2., 0.])
    """
    if not isinstance(factor, Fold):
        factor = None if factor is None else Fold(factor, None, None, factor.new_zeros(()), "quadratic")
    dims = len(kernel_size) if isinstance(kernel_size, tuple | list) else x.ndim - 2
    window = Window.of(kernel_size, stride, padding, dilation, ceil_mode, dims=dims)
    check_assignment(assignment, temperature, return_indices)
    return _pool(x, factor, window, groups, assignment, temperature, return_indices, training, generator)


def _pool(
    x: Tensor,
    fold: Fold | None,
    window: Window,
    groups: int,
    assignment: str,
    temperature: float,
    return_indices: bool,
    training: bool,
    generator: torch.Generator | None,
) -> Any:
    batched = window.is_batched(x)
    x = x if batched else x[None]
    how = ASSIGNMENTS[assignment]
    scored = x if how.differentiable else x.detach()
    score = score_map(scored, fold, groups=groups, ordinal=how.weights is None)
    out, indices = assign(x, score, window, assignment, temperature, training=training, generator=generator)
    out = out if batched else out[0]
    if not return_indices:
        return out
    if indices is None:
        raise InputError(f"assignment {assignment!r} mixes pixels in evaluation: there are no indices to return")
    indices = indices.repeat_interleave(x.shape[1] // indices.shape[1], dim=1)
    return out, indices if batched else indices[0]


def check_assignment(assignment: str, temperature: float, return_indices: bool = False) -> None:
    """Refuse an unknown assignment, a temperature that makes no sense, and indices where there are none."""
    if assignment not in ASSIGNMENTS:
        raise unknown("assignment", assignment, ASSIGNMENTS)
    if not isinstance(temperature, int | float) or not temperature > 0:
        raise InputError(f"temperature must be positive, got {temperature!r}")
    if return_indices and assignment == "soft":
        raise InputError("assignment 'soft' mixes pixels: return_indices must be False")


class _MultipartitePool(SupervisedLayer):
    dims: int

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
        *,
        num_classes: int,
        num_channels: int | None = None,
        criterion: str = "kl",
        projection: str = "fisher",
        groups: int = 1,
        assignment: str = "hard",
        temperature: float = 1.0,
        momentum: float = 0.05,
        refit_every: int = 20,
        max_rows: int | None = 2048,
        process_group: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            num_channels=num_channels,
            criterion=criterion,
            projection=projection,
            groups=groups,
            momentum=momentum,
            refit_every=refit_every,
            max_rows=max_rows,
            process_group=process_group,
            device=device,
            dtype=dtype,
        )
        check_assignment(assignment, temperature, return_indices)
        self.window = Window.of(kernel_size, stride, padding, dilation, ceil_mode, dims=self.dims)
        self.return_indices = return_indices
        self.assignment, self.temperature = assignment, float(temperature)
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Any:
        """Pool x; in training, learn from the labels of :func:`multipartite.supervise` first."""
        batched = self.window.is_batched(x)
        channels = x.shape[1] if batched else x.shape[0]
        self._check_channels(channels)
        if self.training or self.settling:
            self.observe(x if batched else x[None])
        elif not self.informed and not torch.compiler.is_compiling():
            if self.num_channels is None:
                self.settle(channels, x.device)
            self._warn_if_new()
        return _pool(
            x,
            self.fold(),
            self.window,
            self.groups,
            self.assignment,
            self.temperature,
            self.return_indices,
            self.training,
            self.generator,
        )

    def score(self, x: Tensor) -> Tensor:
        """Score of every pixel of x (N, C, *spatial), one map a group: (N, groups, *spatial)."""
        return score_map(x, self.fold(), groups=self.groups)

    def _check_channels(self, channels: int) -> None:
        if self.num_channels is not None and channels != self.num_channels:
            raise InputError(f"this layer was settled for {self.num_channels} channels, got {channels}")
        if channels % self.groups:
            raise InputError(f"channels must be divisible by groups={self.groups}, got {channels}")

    def extra_repr(self) -> str:
        """Show what was asked for, as the layers of torch do."""
        window = self.window
        shown = {
            "kernel_size": window.kernel_size,
            "stride": window.stride,
            "padding": window.padding,
            "dilation": window.dilation,
            "ceil_mode": window.ceil_mode,
            "num_classes": self.num_classes,
            "num_channels": self.num_channels,
            "criterion": self.criterion,
            "projection": self.projection,
            "groups": self.groups,
            "assignment": self.assignment,
            "temperature": self.temperature,
        }
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class MultipartitePool1d(_MultipartitePool):
    """Multipartite pooling of (N, C, L); see :class:`MultipartitePool2d`.

    Examples
    --------
    >>> pool = MultipartitePool1d(2, num_classes=3).train(False)
    >>> pool.window.dims
    1
    """

    dims = 1


class MultipartitePool2d(_MultipartitePool):
    """Multipartite pooling of (N, C, H, W), a drop-in for ``nn.MaxPool2d``; see :func:`multipartite_pool`.

    Parameters
    ----------
    kernel_size, stride, padding, dilation, return_indices, ceil_mode
        As in ``nn.MaxPool2d``.
    num_classes : int
        How many classes the labels tell apart.
    num_channels : int, optional
        Settled at the first forward or by ``load_state_dict`` where not given.
    criterion : str
        How far a class is from the others: "kl", "bhattacharyya", "ttest" or "information".
    projection : {"fisher", "orthogonal", "penalised"}
        Which directions tell the classes apart, see :mod:`multipartite.projection`.
    groups : int
        Blocks of channels, each with its own projection and its own pick; 1 is the paper.
    assignment : {"hard", "soft", "stochastic"}
        What becomes of a scored window; "hard" is the paper's Alg. 3.
    temperature : float
        For "soft" and "stochastic".
    momentum : float in [0, 1)
        Share of the statistics that a batch forgets.
    refit_every : int
        How many updates lie between two refits of the factor.
    max_rows : int, optional
        At most how many pixels of a batch the statistics look at, others every time; None for all.
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

    dims = 2


class MultipartitePool3d(_MultipartitePool):
    """Multipartite pooling of (N, C, D, H, W); see :class:`MultipartitePool2d`.

    Examples
    --------
    >>> pool = MultipartitePool3d(2, num_classes=3).train(False)
    >>> pool.window.dims
    3
    """

    dims = 3
