"""Class statistics (Eq. 5 and 6): the only home of the within- and between-class scatter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import Self

from multipartite._tall import LEAST_ROWS, tall_moments
from multipartite._validation import as_tensor
from multipartite.errors import InputError
from multipartite.labels import IGNORE, Labels

__all__ = ["ClassStatistics", "Moments", "full_precision"]

_CHUNK = 1 << 20  # numbers centred at a time: large enough for BLAS, small enough for a cache


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context in which autocast leaves operations on the device of x alone; it costs nothing outside of it.

    Examples
    --------
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16), full_precision(x):
    ...     (x @ x).dtype
    torch.float32
    """
    if x.is_meta or not torch.is_autocast_enabled(x.device.type):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def _once_while_held(compute: Callable[[ClassStatistics], Tensor]) -> property:
    """Make a property that is computed once while the statistics are held, and every time it is asked for otherwise."""

    @functools.wraps(compute)
    def get(self: ClassStatistics) -> Tensor:
        if self._held is None:
            return compute(self)
        if compute.__name__ not in self._held:
            self._held[compute.__name__] = compute(self)
        return self._held[compute.__name__]

    return property(get)


class Moments(NamedTuple):
    """Rows per class, class means and scatter about them: what some rows add to the statistics."""

    number: Tensor  # [c]
    mean: Tensor  # [c, num_features]
    scatter: Tensor  # [groups, d, d]


class ClassStatistics(nn.Module):
    r"""Counts, class means and pooled within-class scatter, streamed.

    .. math:: S_w = \frac1N \sum_j \sum_{x \in C_j} (x - \mu_j)(x - \mu_j)^T, \qquad
              S_b = \frac1k \sum_j (\mu_j - \bar\mu)(\mu_j - \bar\mu)^T

    The sums of Eq. 5 and 6 are kept as averages, over the N rows and over the k classes seen. Rows are
    centred on their own class before they are squared, so that a large mean does not cancel in float32.
    Memory is O(c d + d^2), whatever the number of rows. The features may be split into `groups` blocks,
    each with a scatter of its own. The tensors are buffers and keep their precision under ``.to(dtype)``.

    Parameters
    ----------
    num_classes : int
        Number of classes c; a class never seen has no weight anywhere.
    num_features : int
        Number of features over all groups.
    groups : int
        Number of blocks of ``num_features // groups`` features.

    Attributes
    ----------
    count : Tensor of shape (c,)
        Rows per class (a sum of weights where labels are soft or old rows have decayed).
    mean : Tensor of shape (c, num_features)
        Class means; zero for a class never seen.
    scatter : Tensor of shape (groups, d, d)
        Sum over the rows of the outer products about the class mean.

    Examples
    --------
    >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
    >>> statistics.within.item(), statistics.between.item()
    (1.0, 20.25)
    """

    count: Tensor
    mean: Tensor
    scatter: Tensor

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        *,
        groups: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        if num_classes < 1 or num_features < 1:
            raise InputError(f"need at least one class and one feature, got {num_classes} and {num_features}")
        if groups < 1 or num_features % groups:
            raise InputError(f"groups must divide the number of features, got {groups} for {num_features}")
        self.groups = groups
        self._held: dict[str, Tensor] | None = None
        d = num_features // groups
        new = {"device": device, "dtype": dtype}
        self.register_buffer("count", torch.zeros(num_classes, **new))  # type: ignore[arg-type]
        self.register_buffer("mean", torch.zeros(num_classes, num_features, **new))  # type: ignore[arg-type]
        self.register_buffer("scatter", torch.zeros(groups, d, d, **new))  # type: ignore[arg-type]

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        def keep_precision(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(keep_precision, recurse)  # type: ignore[no-untyped-call]
        return self

    # What the rest of the package reads

    @property
    def num_classes(self) -> int:
        """Number of classes, seen or not."""
        return len(self.count)

    @property
    def num_features(self) -> int:
        """Number of features over all groups."""
        return self.mean.shape[1]

    @_once_while_held
    def total(self) -> Tensor:
        """Count the rows N."""
        return self.count.sum()

    @_once_while_held
    def present(self) -> Tensor:
        """Which classes have been seen, shape (c,)."""
        return self.count > 0

    @_once_while_held
    def prior(self) -> Tensor:
        """Share of every class in the rows, shape (c,)."""
        return self.count / _at_least_tiny(self.total)

    @_once_while_held
    def overall_mean(self) -> Tensor:
        """Mean of all rows, shape (groups, 1, d)."""
        return self.by_group(self.prior @ self.mean)

    @_once_while_held
    def class_means(self) -> Tensor:
        """Class means, shape (groups, c, d)."""
        return self.by_group(self.mean)

    @_once_while_held
    def within(self) -> Tensor:
        """Average within-class covariance Sw (Eq. 5), shape (groups, d, d)."""
        return self.scatter / _at_least_tiny(self.total)

    @_once_while_held
    def deviations(self) -> Tensor:
        """Class means about the mean of all rows, zero where a class is absent, shape (groups, c, d)."""
        return (self.class_means - self.overall_mean) * self.present[:, None]

    @_once_while_held
    def between(self) -> Tensor:
        """Scatter Sb of the class means about the overall mean (Eq. 6), shape (groups, d, d)."""
        M = self.deviations
        return M.mT @ M / self.present.sum().clamp_min(1)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Compute what follows from the numbers once inside, where they must not change: a refit asks for it often.

        Examples
        --------
        >>> statistics = ClassStatistics(2, 1).update([[0.0], [2.0], [9.0], [11.0]], [0, 0, 1, 1])
        >>> with statistics.held():
        ...     statistics.within is statistics.within
        True
        """
        self._held = {}
        try:
            yield
        finally:
            self._held = None

    def by_group(self, rows: Tensor) -> Tensor:
        """View rows of all features, shape (n, g*d) or (g*d,), as (g, n, d)."""
        return rows.reshape(-1, self.groups, self.num_features // self.groups).transpose(0, 1)

    # How they change

    @torch.no_grad()
    def update(self, X: Any, y: Any, *, ignore_index: int = IGNORE, weight: Tensor | None = None) -> Self:
        """Add labelled rows, or activations with one label an image or a pixel.

        Parameters
        ----------
        X : array of shape (N, num_features) or (N, num_features, *spatial)
            Rows; every pixel of an activation map is a row.
        y : array of shape (N,), (N, c) or (N, *spatial)
            Class indices, weights a class (a row counts for each class by its weight), or an index a pixel; see
            :meth:`multipartite.labels.Labels.of`.
        ignore_index : int
            Rows with this index count nowhere.
        weight : Tensor of shape (N,), optional
            How often every row counts.
        """
        X = as_tensor(X)
        y = as_tensor(y).to(X.device)
        labels = Labels.of(y, self.num_classes, X.shape[2:], ignore_index=ignore_index, weight=weight)
        for moments in self.moments(X, labels):
            self.add(moments)
        return self

    @torch.no_grad()
    def moments(self, X: Tensor, labels: Labels) -> Iterator[Moments]:
        """Summarise rows (N, num_features) or maps (N, num_features, *spatial) chunk by chunk, without adding them."""
        if X.ndim < 2 or X.shape[1] != self.num_features:
            raise InputError(f"X must be (N, {self.num_features}, ...), got shape {tuple(X.shape)}")
        if labels.a_pixel:  # pixels are rows
            X, labels = X.movedim(1, -1).reshape(-1, X.shape[1]), labels.rows()
        if len(labels) != len(X):
            raise InputError(f"labels must be as many as rows, got {len(labels)} labels for {len(X)} rows")
        if X.numel() == 0:
            return
        X = X.reshape(*X.shape[:2], -1)  # [N, C, L]
        if X.dtype not in (torch.float32, torch.float64):
            X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
        if len(X) >= LEAST_ROWS and self._is_table(X, labels):
            table, threads = X[:, :, 0].numpy(), torch.get_num_threads()
            for parts in tall_moments(table, labels.index.numpy(), self.num_classes, threads):
                number, mean, scatter = (torch.from_numpy(part).to(self.mean) for part in parts)
                yield Moments(number, mean, scatter[None])
            return
        rows = max(1, _CHUNK // X[0].numel())
        for start in range(0, len(X), rows):
            chunk = slice(start, start + rows)
            with full_precision(X):
                yield self._moments(X[chunk], labels[chunk])

    def _is_table(self, X: Tensor, labels: Labels) -> bool:
        plain = labels.soft is None and labels.weight is None
        return plain and self.groups == 1 and X.shape[2] == 1 and X.device.type == self.mean.device.type == "cpu"

    def _moments(self, x: Tensor, labels: Labels) -> Moments:
        """Count, class means and scatter of one chunk x [N, C, L].

        Every row is centred on an origin a_j of its class (a soft row on the mix s_i of its origins) before
        it is squared. The origin is the running class mean, or for a class not seen yet a glance at this
        chunk; being off costs no exactness, only digits.
        """
        L, exact = x.shape[2], self.mean.dtype
        count = labels.sums(x.new_ones(len(x), 1, dtype=exact))  # [c, 1]
        n = L * count
        a = self.origins(x, labels, count).to(x.dtype)
        s = labels.mix(a)  # [N, C]
        z = torch.empty_like(x) if x.stride(1) == 1 else x.new_empty(x.shape[1], len(x), L).transpose(0, 1)
        torch.sub(x, s[..., None], out=z)
        if labels.weight is not None:
            z *= labels.weight.sqrt().to(z)[:, None, None]
        rows = z.permute(1, 0, 2).reshape(self.groups, -1, len(x) * L)  # [g, d, N L]
        scatter = (rows @ rows.mT).to(exact)
        a = a.to(exact)
        residual = labels.rescaled_sums(z[:, :, 0] if L == 1 else z.sum(2)).to(exact)  # [c, C]
        if labels.soft is not None:
            s, weight = s.to(exact), L * labels.soft.sum(1, dtype=exact)
            residual += L * labels.sums(s).to(exact) - n * a
            centre = (n * a).sum(0) / _at_least_tiny(n.sum())
            scatter += self.gram(a - centre, n[:, 0]) - self.gram(s - centre, weight)
        return self.moments_about(a, n, residual, scatter)

    def origins(self, x: Tensor, labels: Labels, count: Tensor) -> Tensor:
        """Points near the class means, (c, num_features): the means so far, else of a glance at x [N, C, L]."""
        if x.device.type == "cpu" and self.present.all():
            return self.mean
        glance = labels.sums(x[:, :, x.shape[2] // 2]).to(self.mean) / _at_least_tiny(count)
        return torch.where(self.present[:, None], self.mean, glance)

    def moments_about(self, a: Tensor, n: Tensor, residual: Tensor, scatter: Tensor) -> Moments:
        """Moments of rows of which sums and products about origins a (c, num_features) are known.

        Parameters
        ----------
        n : Tensor of shape (c, 1)
            Rows per class.
        residual : Tensor of shape (c, num_features)
            Sums of the rows about the origin of their class.
        scatter : Tensor of shape (groups, d, d)
            Sums of their outer products.
        """
        delta = residual / _at_least_tiny(n)
        n = n[:, 0]
        return Moments(n, (a + delta) * (n > 0)[:, None], scatter - self.gram(delta, n))

    def gram(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Weighted sum of outer products of rows (n, num_features), per group: (groups, d, d)."""
        rows = self.by_group(rows)
        return (rows * weight[:, None]).mT @ rows

    @torch.no_grad()
    def add(self, moments: Moments) -> None:
        """Combine with the statistics of other rows (Chan, Golub and LeVeque 1983), exactly."""
        count, mean, scatter = moments
        share = count / _at_least_tiny(self.count + count)
        new = (mean - self.mean) * (count > 0)[:, None]  # a class that no row had has no mean
        delta = torch.where(self.present[:, None], new, 0)
        self.scatter.add_(scatter).add_(self.gram(delta, self.count * share))
        self.mean.addcmul_(new, share[:, None])
        self.count.add_(count)

    @torch.no_grad()
    def merge(self, other: ClassStatistics) -> Self:
        """Add the rows that `other` has seen; the order does not matter but for rounding."""
        if other.mean.shape != self.mean.shape or other.groups != self.groups:
            raise InputError(
                f"statistics must agree to merge: (classes, features) {tuple(self.mean.shape)} in "
                f"{self.groups} groups against {tuple(other.mean.shape)} in {other.groups}"
            )
        self.add(Moments(*(t.to(self.count) for t in (other.count, other.mean, other.scatter))))
        return self

    @torch.no_grad()
    def decay(self, momentum: float) -> Self:
        """Let what was seen so far count for ``1 - momentum`` of what it did; means stay."""
        if not 0 <= momentum <= 1:
            raise InputError(f"momentum must lie in [0, 1], got {momentum}")
        self.count.mul_(1 - momentum)
        self.scatter.mul_(1 - momentum)
        return self

    @torch.no_grad()
    def reset(self) -> Self:
        """Forget every row."""
        for tensor in (self.count, self.mean, self.scatter):
            tensor.zero_()
        return self

    def empty(self) -> ClassStatistics:
        """Make statistics of the same sizes that have seen no rows."""
        c, features = self.mean.shape
        new = {"device": self.mean.device, "dtype": self.mean.dtype}
        return ClassStatistics(c, features, groups=self.groups, **new)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"num_classes={self.num_classes}, num_features={self.num_features}, groups={self.groups}"


def _at_least_tiny(x: Tensor) -> Tensor:
    return x.clamp_min(torch.finfo(x.dtype).tiny)
