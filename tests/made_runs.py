"""Run folders with chosen numbers, for tests of what is made of them: nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from multipartite.experiments.grid.comparison import place
from multipartite.experiments.run.config import FORMAT, RunConfig
from multipartite.experiments.run.store import Epoch, Metrics, Summary, write_json, write_metrics

ERRORS = {
    "max": [5.0, 6.0, 5.5, 6.5],
    "average": [7.0, 8.5, 7.0, 8.0],
    "stochastic": [4.6, 5.9, 4.9, 6.1],
    "multipartite:assignment=stochastic": [4.0, 5.5, 4.4, 5.3],
}


def made_run(
    out: Path,
    pooling: str,
    seed: int,
    test: float,
    train: float = 1.0,
    *,
    finished: bool = True,
    version: str = "1",
    **more: Any,
) -> Path:
    config = RunConfig.from_json(
        {"dataset": "digits", "epochs": 3, "threads": 1, "pooling": pooling, "seed": seed, **more}
    )  # as a folder tells it: nothing has to be at hand
    folder = place(out, pooling, seed)
    folder.mkdir(parents=True)
    head = {"versions": {"multipartite": version, "torch": "2"}, "revision": None}
    write_json(folder / "config.json", {"format": FORMAT, "key": config.key, "config": config.to_json(), **head})
    history = [
        Epoch(
            e, 0.1, Metrics(3.0 / e, 30.0 / e + train, 5.0 / e), Metrics(2.0 / e, 20.0 / e + test, 4.0 / e), 1000.0, 1.0
        )
        for e in range(1, config.epochs + 1)
    ]
    write_metrics(folder, history)
    if not finished:
        return folder
    write_json(folder / "summary.json", made_summary(pooling, seed, test, train, config.key, config.epochs).to_json())
    return folder


def made_summary(pooling: str, seed: int, test: float, train: float = 1.0, key: str = "", epochs: int = 3) -> Summary:
    return Summary(
        key=key,
        train=Metrics(0.1, train, 0.0),
        validation=Metrics(0.2, test, 0.0),
        test=Metrics(0.3, test, test / 10),
        epochs=epochs,
        parameters=1234,
        train_images=1293,
        samples_per_second=1000.0 if pooling == "max" else 500.0,
        seconds=3.0,
        peak_memory=2**28,
        device="cpu",
        threads=1,
        network="small:width=32",
        initial=f"i{seed}",
        order=f"o{seed}",
        final=f"f{pooling}{seed}",
    )


def made_grid(
    out: Path, errors: Mapping[str, list[float]], train: Mapping[str, float] | None = None, **more: Any
) -> Path:
    """Write a run for every pooling and seed: ``errors[pooling][seed]`` is its test error."""
    for pooling, values in errors.items():
        for seed, test in enumerate(values):
            made_run(out, pooling, seed, test, (train or {}).get(pooling, 1.0), **more)
    return out
