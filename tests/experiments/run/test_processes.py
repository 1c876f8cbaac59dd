"""The meter against a slow count."""

import pytest
import torch
import torch.nn.functional as F

from multipartite.experiments.run.processes import Meter


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_errors_and_objective_over_uneven_batches(classes):
    torch.manual_seed(0)
    logits, labels = torch.randn(57, classes), torch.randint(classes, (57,))
    meter = Meter(torch.device("cpu"))
    for rows in (slice(0, 50), slice(50, 57)):
        meter.update(logits[rows], labels[rows], F.cross_entropy(logits[rows], labels[rows]))
    ranks = [sum(v > row[label] for v in row) for row, label in zip(logits.tolist(), labels.tolist(), strict=True)]
    result = meter.result()
    assert result.top1 == pytest.approx(100 * sum(r >= 1 for r in ranks) / 57)
    assert result.top5 == pytest.approx(100 * sum(r >= 5 for r in ranks) / 57)
    assert result.objective == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-6)
