"""Slow loops straight from the paper: the oracle of the fast code.

Nothing here is imported from the package. Scalars are Python floats, matrices NumPy arrays in float64, and
each function names the equation or algorithm that it spells out.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

# Eq. 5 and 6


def rows_of(X, y):
    """Activations (N, d, *spatial) and labels (N,), (N, *spatial) or (N, c) as a list of (row, label)."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    a_pixel = y.shape == X.shape[:1] + X.shape[2:]
    places = itertools.product(*map(range, (len(X), *X.shape[2:])))
    return [(X[(i, slice(None), *at)], y[(i, *at)] if a_pixel else y[i]) for i, *at in places]


def class_weights(label, c, ignore_index=-100):
    """How much a row counts for every class: its soft label, or one for its own class."""
    if np.ndim(label):
        return [float(w) for w in label]
    return [float(label == j and label != ignore_index) for j in range(c)]


def statistics(X, y, c, ignore_index=-100):
    """Counts, class means, Sw (Eq. 5, over the number of rows) and Sb (Eq. 6, over the classes seen)."""
    pairs = [(x, class_weights(label, c, ignore_index)) for x, label in rows_of(X, y)]
    d = np.asarray(X).shape[1]
    count, total = [0.0] * c, [np.zeros(d) for _ in range(c)]
    for x, weights in pairs:
        for j in range(c):
            count[j] += weights[j]
            total[j] = total[j] + weights[j] * x
    mean = [total[j] / count[j] if count[j] else np.zeros(d) for j in range(c)]
    N = sum(count)
    overall = sum(total) / N if N else np.zeros(d)
    Sw, Sb = np.zeros((d, d)), np.zeros((d, d))
    for x, weights in pairs:
        for j in range(c):
            Sw += weights[j] * np.outer(x - mean[j], x - mean[j]) / N
    seen = [j for j in range(c) if count[j] > 0]
    for j in seen:
        Sb += np.outer(mean[j] - overall, mean[j] - overall) / len(seen)
    return np.array(count), np.array(mean), Sw, Sb


# Alg. 1


def objective(A, Sw, Sb, weight):
    """Eq. 7, entry by entry, with the paper's A transposed: columns are directions."""
    d, k = A.shape
    within = sum(A[p, j] * Sw[p, q] * A[q, j] for j in range(k) for p in range(d) for q in range(d))
    between = sum(A[p, j] * Sb[p, q] * A[q, j] for j in range(k) for p in range(d) for q in range(d))
    gap = 0.0
    for i in range(k):
        for j in range(k):
            gap += ((i == j) - sum(A[p, i] * A[p, j] for p in range(d))) ** 2
    return within / between + weight * math.sqrt(gap)


def printed_gradient(A, Sw, Sb, weight):
    """Eq. 10 with the signs that the paper prints: it is not the gradient of Eq. 7."""
    within, between = np.trace(A.T @ Sw @ A), np.trace(A.T @ Sb @ A)
    gap = np.eye(A.shape[1]) - A.T @ A
    return (
        within / between**2 * (Sb.T + Sb) @ A
        - 1 / between * (Sw.T + Sw) @ A
        - 2 * weight / np.linalg.norm(gap) * A @ gap
    )


# Eq. 1: two groups, from size, mean and variance, or from the samples


def kl(n1, m1, s1, n2, m2, s2):
    return 0.5 * (s1 / s2 + s2 / s1 - 2) + 0.5 * (m1 - m2) ** 2 * (1 / s1 + 1 / s2)


def ttest(n1, m1, s1, n2, m2, s2):
    pooled = ((n1 - 1) * s1 + (n2 - 1) * s2) / (n1 + n2 - 2)
    return abs(m1 - m2) / math.sqrt(pooled * (1 / n1 + 1 / n2))


def bhattacharyya(n1, m1, s1, n2, m2, s2):
    return (m1 - m2) ** 2 / (4 * (s1 + s2)) + 0.5 * math.log((s1 + s2) / (2 * math.sqrt(s1 * s2)))


def roc(one, two):
    """Share of the pairs that are in order, ties by half, against the half of a random classifier."""
    in_order = sum((a > b) + 0.5 * (a == b) for a in one for b in two)
    return abs(in_order / (len(one) * len(two)) - 0.5)


def wilcoxon(one, two):
    """Mann-Whitney U standardised, its variance corrected for ties."""
    n, m = len(one), len(two)
    U = sum((a > b) + 0.5 * (a == b) for a in one for b in two)
    values = [*one, *two]
    ties = sum(t**3 - t for t in (values.count(v) for v in set(values)))
    variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))
    return abs(U - n * m / 2) / math.sqrt(variance)


FROM_MOMENTS = {"kl": kl, "ttest": ttest, "bhattacharyya": bhattacharyya}
FROM_SAMPLES = {"roc": roc, "wilcoxon": wilcoxon}


# Eq. 2


def two_groups(one, two, name, variance_floor=0.0):
    """The criterion between two lists of numbers (Eq. 1), the ratio of their variances kept from a floor on."""
    one, two = [float(v) for v in one], [float(v) for v in two]
    if name in FROM_SAMPLES:
        return FROM_SAMPLES[name](one, two)
    moments = []
    for group in (one, two):
        mean = sum(group) / len(group)
        moments += [len(group), mean, sum((v - mean) ** 2 for v in group) / (len(group) - 1)]
    n1, m1, s1, n2, m2, s2 = moments
    if name != "ttest":
        moments = [n1, m1, max(s1, variance_floor * s2), n2, m2, max(s2, variance_floor * s1)]
    return FROM_MOMENTS[name](*moments)


def feature_scores(X, y, name, variance_floor=0.0):
    """Eq. 2: for every column, the sum over the classes of one class against the rest."""
    scores = []
    for column in np.asarray(X, dtype=np.float64).T:
        score = 0.0
        for label in sorted(set(y)):
            one = [v for v, of in zip(column, y, strict=True) if of == label]
            two = [v for v, of in zip(column, y, strict=True) if of != label]
            score += two_groups(one, two, name, variance_floor)
        scores.append(score)
    return np.array(scores)


def greedy_order(X, scores, alpha, beta, top):
    """MATLAB's CCWeighting and NWeighting: each column is weighed against those taken before it."""
    taken = []
    while len(taken) < top:
        best, highest = None, -math.inf
        for j in range(len(scores)):
            if j in taken:
                continue
            weighted = scores[j]
            if taken:
                rho = sum(abs(np.corrcoef(X[:, j], X[:, t])[0, 1]) for t in taken) / len(taken)
                weighted *= 1 - alpha * rho
                if beta > 0:
                    weighted *= 1 - math.exp(-((min(abs(j - t) for t in taken) / beta) ** 2))
            if weighted > highest:
                best, highest = j, weighted
        taken.append(best)
    return taken


# Eq. 3 and Alg. 2


def instance_scores(X, A, Sw, present, name):
    """Overall criterion of every row: the sum over the classes seen of a column against the others."""
    X, A = np.asarray(X, dtype=np.float64), np.asarray(A)
    classes = [j for j in range(A.shape[1]) if present[j]]
    variance = {j: float(A[:, j] @ Sw @ A[:, j]) for j in classes}  # of the projected rows, within classes
    scores = []
    for x in X:
        p = {j: float(x @ A[:, j]) for j in classes}  # step 2
        total = 0.0
        for i in classes:  # steps 3, 4
            others = [j for j in classes if j != i]
            m = sum(p[j] for j in others) / len(others)
            s = sum(variance[j] for j in others) / len(others)
            total += FROM_MOMENTS[name](2, p[i], variance[i], 2, m, s)
        scores.append(total)  # step 5
    return np.array(scores)


# Windows, as torch's pooling counts them


def output_size(size, kernel, stride, padding, dilation, ceil_mode):
    out = []
    for length, k, s, p, e in zip(size, kernel, stride, padding, dilation, strict=True):
        room = length + 2 * p - e * (k - 1) - 1
        steps = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (steps - 1) * s >= length + p:  # a last window may not start beyond the input
            steps -= 1
        out.append(steps)
    return tuple(out)


def places(window, size, kernel, stride, padding, dilation):
    """The places of one window that are not padding: (which of the kernel, which of the input), in order."""
    found = []
    for step in itertools.product(*map(range, kernel)):
        at = tuple(w * s - p + e * i for w, s, p, e, i in zip(window, stride, padding, dilation, step, strict=True))
        if all(0 <= a < length for a, length in zip(at, size, strict=True)):
            found.append((step, at))
    return found


# Alg. 3


def multipartite_pool(x, score_map, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """In every window pick the pixel with the highest score, the first of equals, for all channels of a group.

    Parameters
    ----------
    x : Tensor of shape (N, C, *spatial), of one to three spatial dimensions
    score_map : Tensor of shape (N, groups, *spatial)
    kernel, stride, padding, dilation : int or tuple of int, as in ``torch.nn.MaxPool2d``

    Returns
    -------
    values, indices : Tensors of shape (N, C, *out)
        Indices are into the flattened spatial dimensions, as torch returns them.
    """
    size = tuple(x.shape[2:])
    n = len(size)

    def each(value):
        return (value,) * n if isinstance(value, int) else tuple(value)

    kernel, padding, dilation = each(kernel), each(padding), each(dilation)
    stride = kernel if stride is None or stride == () else each(stride)
    out = output_size(size, kernel, stride, padding, dilation, ceil_mode)
    groups = score_map.shape[1]
    width = x.shape[1] // groups
    values = x.new_zeros(*x.shape[:2], *out)
    indices = torch.zeros(*x.shape[:2], *out, dtype=torch.int64)
    for image, group in itertools.product(range(len(x)), range(groups)):
        for window in itertools.product(*map(range, out)):
            best, place = -math.inf, None
            for _, at in places(window, size, kernel, stride, padding, dilation):  # padding is never picked
                score = float(score_map[(image, group, *at)])
                if place is None or score > best:
                    best, place = score, at
            flat = 0
            for a, length in zip(place, size, strict=True):
                flat = flat * length + a
            for channel in range(group * width, (group + 1) * width):
                values[(image, channel, *window)] = x[(image, channel, *place)]
                indices[(image, channel, *window)] = flat
    return values, indices


# The other poolings, each after its source. A window is kernel_size, stride, padding, dilation (tuples) and ceil_mode


def pool_windows(x, rule, *, kernel_size, stride, padding, dilation, ceil_mode):
    """Apply a rule to the pixels of every window of (N, C, *spatial).

    Parameters
    ----------
    rule : callable (pixels, steps, image, channel, ats) -> float
        Given the numbers of the window without padding, their places in the kernel, whose map it is, and their places
        in the map.
    """
    size = tuple(x.shape[2:])
    out = output_size(size, kernel_size, stride, padding, dilation, ceil_mode)
    pooled = torch.zeros(*x.shape[:2], *out, dtype=torch.float64)
    for image, channel, *window in itertools.product(range(len(x)), range(x.shape[1]), *map(range, out)):
        steps, ats = zip(*places(tuple(window), size, kernel_size, stride, padding, dilation), strict=True)
        pixels = [float(x[(image, channel, *at)]) for at in ats]
        pooled[(image, channel, *window)] = rule(pixels, steps, image, channel, ats)
    return pooled


def sliding_max(x, *, kernel_size, stride, padding, dilation, ceil_mode):
    """Max at stride one; with ceil_mode as far as the last window of the stride reaches."""
    size = tuple(x.shape[2:])
    last = output_size(size, kernel_size, stride, padding, dilation, ceil_mode)
    ones = (1,) * len(size)
    length = output_size(size, kernel_size, ones, padding, dilation, False)
    if ceil_mode:
        length = tuple(max(n, (o - 1) * s + 1) for n, o, s in zip(length, last, stride, strict=True))
    highest = torch.zeros(*x.shape[:2], *length, dtype=torch.float64)
    for image, channel, *window in itertools.product(range(len(x)), range(x.shape[1]), *map(range, length)):
        seen = places(tuple(window), size, kernel_size, ones, padding, dilation)
        highest[(image, channel, *window)] = max(float(x[(image, channel, *at)]) for _, at in seen)
    return highest


def strided_pool(x, **window):
    """Springenberg et al. 2015: the stride alone."""
    return pool_windows(x, lambda pixels, *_: pixels[0], **window)


def s3_expectation(x, **window):
    """Zhai et al. 2017, evaluation: the mean of every cell of the max at stride one."""
    y, stride = sliding_max(x, **window), window["stride"]
    zeros, ones = (0,) * len(stride), (1,) * len(stride)
    cells = {"kernel_size": stride, "stride": stride, "padding": zeros, "dilation": ones, "ceil_mode": True}
    return pool_windows(y, lambda pixels, *_: sum(pixels) / len(pixels), **cells)


def blur_pool(x, width, **window):
    """Zhang 2019: the max at stride one, mirrored at its borders, with binomial weights, subsampled."""
    y, stride = sliding_max(x, **window), window["stride"]
    size, out = tuple(y.shape[2:]), tuple(-(-n // s) for n, s in zip(y.shape[2:], window["stride"], strict=True))

    def mirrored(i, n):
        while n > 1 and not 0 <= i < n:
            i = -i if i < 0 else 2 * (n - 1) - i
        return i if n > 1 else 0

    pooled = torch.zeros(*x.shape[:2], *out, dtype=torch.float64)
    for image, channel, *place in itertools.product(range(len(x)), range(x.shape[1]), *map(range, out)):
        total = 0.0
        for step in itertools.product(range(width), repeat=len(size)):
            at = [
                mirrored(w * s + i - (width - 1) // 2, n) for w, s, i, n in zip(place, stride, step, size, strict=True)
            ]
            weight = math.prod(math.comb(width - 1, i) / 2 ** (width - 1) for i in step)
            total += weight * float(y[(image, channel, *at)])
        pooled[(image, channel, *place)] = total
    return pooled


def soft_pool(x, **window):
    """Stergiou et al. 2021: weights are the exponentials of the numbers."""

    def rule(pixels, *_):
        weights = [math.exp(a - max(pixels)) for a in pixels]
        return sum(w * a for w, a in zip(weights, pixels, strict=True)) / sum(weights)

    return pool_windows(x, rule, **window)


def lp_pool(x, p, **window):
    """The p-norm of a window; what lies outside of the input counts as the others do on average."""
    places_of_kernel = math.prod(window["kernel_size"])

    def rule(pixels, *_):
        if p == math.inf:
            return max(map(abs, pixels))
        return (places_of_kernel / len(pixels) * sum(abs(a) ** p for a in pixels)) ** (1 / p)

    return pool_windows(x, rule, **window)


def gated_pool(x, mask, **window):
    """Lee et al. 2016: a window with its mask gives the share of the maximum. One mask (1, ...) or one a channel."""

    def rule(pixels, steps, image, channel, ats):
        masks = mask[channel if len(mask) > 1 else 0]
        gate = 1 / (1 + math.exp(-sum(float(masks[step]) * a for step, a in zip(steps, pixels, strict=True))))
        return gate * max(pixels) + (1 - gate) * sum(pixels) / len(pixels)

    return pool_windows(x, rule, **window)


def lip_pool(x, weight, scale, shift, **window):
    """Gao et al. 2019: the logits are 12 sigmoid(instance norm(1 x 1 convolution))."""
    N, C, *spatial = x.shape
    pixels_of_map = list(itertools.product(*map(range, spatial)))
    logits = torch.zeros_like(x, dtype=torch.float64)
    for image, channel in itertools.product(range(N), range(C)):
        z = [sum(float(weight[channel, c]) * float(x[(image, c, *at)]) for c in range(C)) for at in pixels_of_map]
        mean = sum(z) / len(z)
        deviation = math.sqrt(sum((one - mean) ** 2 for one in z) / len(z) + 1e-5)
        for at, one in zip(pixels_of_map, z, strict=True):
            normed = float(scale[channel]) * (one - mean) / deviation + float(shift[channel])
            logits[(image, channel, *at)] = 12 / (1 + math.exp(-normed))

    def rule(pixels, steps, image, channel, ats):
        weights = [math.exp(float(logits[(image, channel, *at)])) for at in ats]
        return sum(w * a for w, a in zip(weights, pixels, strict=True)) / sum(weights)

    return pool_windows(x, rule, **window)


def fractional_pool(x, samples, *, kernel_size, stride, padding, dilation, ceil_mode):
    """Graham 2014, as torch has it: regions begin at floor((i + u) alpha) - floor(u alpha), the last at the end.

    Parameters
    ----------
    samples : Tensor of shape (N, C, dims)
        u of every map and axis.
    """
    size = tuple(x.shape[2:])
    out = output_size(size, kernel_size, stride, padding, dilation, ceil_mode)
    reach = [max(n + p, (m - 1) * s + k) for n, p, m, s, k in zip(size, padding, out, stride, kernel_size, strict=True)]
    pooled = torch.zeros(*x.shape[:2], *out, dtype=torch.float64)
    for image, channel, *place in itertools.product(range(len(x)), range(x.shape[1]), *map(range, out)):
        starts = []
        for axis, i in enumerate(place):
            u, room = float(samples[image, channel, axis]), reach[axis] - kernel_size[axis]
            alpha = room / (out[axis] - 1) if out[axis] > 1 else 0.0
            start = room if i == out[axis] - 1 else math.floor((i + u) * alpha) - math.floor(u * alpha)
            starts.append(start - padding[axis])
        region = [range(max(s, 0), min(s + k, n)) for s, k, n in zip(starts, kernel_size, size, strict=True)]
        pooled[(image, channel, *place)] = max(float(x[(image, channel, *at)]) for at in itertools.product(*region))
    return pooled
