"""What the paper printed: train and test error in percent, from its tables of MNIST, CIFAR and SVHN."""

from __future__ import annotations

__all__ = ["PRINTED", "RIVALS", "TABLES", "order", "printed"]

PRINTED = "multipartite-printed"  # the paper's algorithm to the letter
RIVALS = ("average", "max", "stochastic")  # what the paper holds it against

TABLES: dict[str, dict[str, tuple[float, float]]] = {
    "mnist": {
        "average": (0.57, 0.83),
        "max": (0.04, 0.55),
        "stochastic": (0.33, 0.47),
        PRINTED: (0.38, 0.41),
    },
    "cifar10": {
        "average": (1.92, 19.24),
        "max": (0.0, 19.40),
        "stochastic": (3.40, 15.13),
        PRINTED: (12.63, 13.45),
    },
    "cifar100": {
        "average": (11.20, 47.77),
        "max": (0.17, 50.90),
        "stochastic": (21.22, 42.51),
        PRINTED: (36.32, 40.81),
    },
    "svhn": {
        "average": (1.65, 3.72),
        "max": (0.13, 3.81),
        "stochastic": (1.41, 2.80),
        PRINTED: (2.09, 2.15),
    },
}


def printed(dataset: str, pooling: str) -> tuple[float, float] | None:
    """Train and test error that the paper gives for just this pooling, None where it gives none.

    Examples
    --------
    >>> printed("mnist", "multipartite-printed"), printed("mnist", "multipartite")
    ((0.38, 0.41), None)
    """
    return TABLES.get(dataset, {}).get(pooling)


def order(dataset: str) -> list[tuple[str, ...]]:
    """Poolings from the lowest test error to the highest; those that the tables do not order share a place.

    For a data set that is not in the paper it is what all its tables agree in.

    Examples
    --------
    >>> order("mnist")
    [('multipartite-printed',), ('stochastic',), ('max',), ('average',)]
    >>> order("digits")
    [('multipartite-printed',), ('stochastic',), ('max', 'average')]
    """
    if dataset in TABLES:
        table = TABLES[dataset]
        return [(name,) for name in sorted(table, key=lambda name: table[name][1])]
    return [(PRINTED,), ("stochastic",), ("max", "average")]
