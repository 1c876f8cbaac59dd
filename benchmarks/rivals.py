"""What every rival costs against the plain form that its source gives in torch: ``python benchmarks/rivals.py``.

One thread, both memory layouts, evaluation and a step forward and backward, in turn in one process; medians, and the
quartiles of the ratio. A ratio below 1 is faster than the plain form.
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multipartite.bench.timing import interleave
from multipartite.pooling import create

CASES = {"LeNet": ((100, 20, 24, 24), 2, 2), "zeiler": ((32, 64, 32, 32), 3, 2)}


class Plain(nn.Module):
    """A pooling written with torch's own functions, for a kernel and stride without padding."""

    def __init__(self, pool: Callable[..., Tensor], *weights: Tensor) -> None:
        super().__init__()
        self.rule = pool
        self.weights = nn.ParameterList(weights)

    def forward(self, x: Tensor) -> Tensor:
        """Pool x."""
        return self.rule(x, *self.weights, training=self.training)


def plain_forms(k: int, s: int, channels: int, size: int) -> dict[str, Plain]:
    """Write every rival down."""
    out = (size - k) // s + 1
    binomial = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 8
    blur = (binomial[:, None] * binomial).expand(channels, 1, 4, 4).clone()

    def blurred(x: Tensor, **_: Any) -> Tensor:
        return F.conv2d(F.pad(F.max_pool2d(x, k, 1), (1, 2, 1, 2), mode="reflect"), blur, stride=s, groups=channels)

    def drawn(x: Tensor, training: bool) -> Tensor:
        y = F.max_pool2d(x, k, 1)
        if not training:
            return F.avg_pool2d(y, s, s, ceil_mode=True)
        n = y.shape[2]
        lines = [torch.rand(out, s).argsort(1)[:, 0].add(torch.arange(out) * s).clamp_max(n - 1) for _ in range(2)]
        return y[:, :, lines[0][:, None], lines[1]]

    def stochastic(x: Tensor, training: bool) -> Tensor:
        a = F.unfold(x, k, stride=s).reshape(len(x), channels, k * k, -1)
        p = a + 1e-12
        p = p / p.sum(2, keepdim=True)
        if not training:
            pooled = (p * a).sum(2)
        else:
            index = torch.multinomial(p.detach().transpose(2, 3).reshape(-1, k * k), 1)
            pooled = a.gather(2, index.reshape(len(x), channels, 1, -1))[:, :, 0]
        return pooled.reshape(len(x), channels, out, out)

    def softpool(x: Tensor, **_: Any) -> Tensor:
        e = x.exp()
        return F.avg_pool2d(x * e, k, s) / F.avg_pool2d(e, k, s)

    def lip(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, **_: Any) -> Tensor:
        e = (12 * F.instance_norm(F.conv2d(x, weight), weight=scale, bias=shift).sigmoid()).exp()
        return F.avg_pool2d(x * e, k, s) / F.avg_pool2d(e, k, s)

    def mixed(x: Tensor, logit: Tensor, **_: Any) -> Tensor:
        share = logit.sigmoid()
        return share * F.max_pool2d(x, k, s) + (1 - share) * F.avg_pool2d(x, k, s)

    def gated(x: Tensor, mask: Tensor, **_: Any) -> Tensor:
        gate = F.conv2d(x, mask.expand(channels, 1, k, k), stride=s, groups=channels).sigmoid()
        return gate * F.max_pool2d(x, k, s) + (1 - gate) * F.avg_pool2d(x, k, s)

    weights = torch.zeros(channels, channels, 1, 1), torch.ones(channels), torch.zeros(channels)
    return {
        "blur": Plain(blurred),
        "fractional": Plain(lambda x, **_: F.fractional_max_pool2d(x, k, out)),
        "gated": Plain(gated, torch.zeros(1, 1, k, k)),
        "lip": Plain(lip, *weights),
        "lp": Plain(lambda x, **_: F.lp_pool2d(x, 2.0, k, s)),
        "mixed": Plain(mixed, torch.zeros(())),
        "s3": Plain(drawn),
        "softpool": Plain(softpool),
        "stochastic": Plain(stochastic),
        "strided": Plain(lambda x, **_: x[:, :, : (out - 1) * s + 1 : s, : (out - 1) * s + 1 : s].contiguous()),
    }


def calls_of(layers: dict[str, nn.Module], x: Tensor, step: bool) -> dict[str, Callable[[], object]]:
    """One evaluation, or one step forward and backward, of each layer."""
    leaf = x.clone().requires_grad_()

    def evaluate(layer: nn.Module) -> Tensor:
        with torch.no_grad():
            return layer(x)  # type: ignore[no-any-return]

    slope = torch.ones_like(evaluate(layers["plain"].eval()))
    slope = slope.contiguous(memory_format=torch.channels_last) if leaf.stride(1) == 1 else slope

    def train(layer: nn.Module) -> None:
        leaf.grad = None
        layer(leaf).backward(slope)

    for layer in layers.values():
        layer.train(step)
    return {name: (lambda layer=layer: (train if step else evaluate)(layer)) for name, layer in layers.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long to time a pair")
    parser.add_argument("--only", default="", help="names of rivals, with commas between them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| maps | layout | rival | evaluation: plain, ms | ratio | training step: plain, ms | ratio | n |")
    print("|---|---|---|---|---|---|---|---|")
    for case, (shape, k, s) in CASES.items():
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).relu()
        for layout in ("contiguous", "channels_last"):
            y = x.contiguous(memory_format=getattr(torch, f"{layout}_format" if layout == "contiguous" else layout))
            for name, plain in plain_forms(k, s, *shape[1:3]).items():
                if arguments.only and name not in arguments.only.split(","):
                    continue
                layers = {"plain": plain, "ours": create(name, k, s, num_classes=10)}
                layers["ours"](y)  # lazy ones meet their channels
                cells, n = [], 0
                for step in (False, True):
                    found = interleave(calls_of(layers, y, step), seconds=arguments.seconds)
                    ours, n = found["ours"], found["ours"].n
                    spread = f"{ours.ratio:.2f} ({ours.ratio_low:.2f}-{ours.ratio_high:.2f})"
                    cells.append(f"{1e3 * found['plain'].median:.2f} | {spread}")
                print(f"| {case} | {layout} | {name} | {' | '.join(cells)} | {n} |", flush=True)


if __name__ == "__main__":
    main()
