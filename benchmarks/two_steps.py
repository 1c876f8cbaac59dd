"""What gather, assignment, focus and labels are worth: LeNet on digits among distractors, five seeds.

Every setting of the two steps is trained with every seed, on one data set at a time::

    python benchmarks/two_steps.py background-mnist [--limit 5000] [--epochs 20] [--seeds 5] [--jobs 2] [--first 12]
    python benchmarks/two_steps.py cluttered-mnist
    python benchmarks/two_steps.py --write docs/two-steps.md

The data sets are looked for where ``multipartite compare`` looks. The runs lie with those of the comparison of the
same data set, ``results/DATASET-lenet``, and what is finished there is not trained again, so a study that was stopped
goes on; ``--first`` trains the first so many settings only. The last line makes tables of all that is there: a row a
setting, and for every kind of score the setting that validation chooses, with its paired differences.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from multipartite.experiments.grid.comparison import Grid, train_grid
from multipartite.experiments.report.collection import collect
from multipartite.experiments.report.estimates import difference, estimate
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import Summary
from multipartite.words import Places

DATASETS, NETWORK = ("background-mnist", "cluttered-mnist"), "lenet"
SEEDS = 5
LINES = "multipartite:assignment=lines,focus=0,gather=max"
FOCUS = ("0.5", "auto", "0.75", "0.25")
SCORES = ("information", "kl", "energy")
UNIFORM = "multipartite:gather=max,temperature=inf"
DRAWS = {
    "information": "multipartite:criterion=information,gather=max",
    "kl": "multipartite:gather=max",
    "energy": "multipartite:criterion=energy,gather=max",
}
SMOOTHED = ("multipartite", "multipartite:criterion=energy", "multipartite:assignment=lines,focus=0")
GATHERS = ("multipartite:gather=None", "multipartite:gather=average", "multipartite:gather=stochastic")
ASSIGNMENTS = ("multipartite:assignment=hard,gather=max", "multipartite:assignment=soft,gather=max")

Runs = Mapping[int, Summary]


def focused(score: str, focuses: Iterable[str] = FOCUS) -> list[str]:
    """Lines with a focus, by one kind of score: in the last layer alone, and in all."""
    found = []
    for focus in focuses:
        if (focus, score) != ("auto", "energy"):  # which learns nothing that could tell
            word = f"multipartite:assignment=lines,criterion={score},focus={focus},gather=max"
            found += [f"{LINES}|{word}", word]
    return found


def words() -> list[str]:
    """Every setting of the study, as a pooling word; what the questions hang on comes first."""
    plain = ["max", "stochastic", "multipartite-printed", LINES, *DRAWS.values(), UNIFORM]
    lines = [word for focus in FOCUS for score in SCORES for word in focused(score, [focus])]
    return [*plain, *lines, *SMOOTHED, *GATHERS, *ASSIGNMENTS]


def pages(out: Path) -> Iterator[str]:
    """Lines of the page: every data set that was studied."""
    yield from INTRODUCTION
    studied = {str(Places.parse(word)) for word in words()}
    for folder in (out / f"{dataset}-{NETWORK}" for dataset in DATASETS):
        if not (folder / "runs").is_dir():
            continue
        collection = collect(folder)
        runs = {str(Places.parse(word)): found for word, found in collection.summaries.items()}
        runs = {word: found for word, found in runs.items() if word in studied}
        config = collection.config
        numbers = [len(found) for found in runs.values()]
        seeds = " to ".join(map(str, dict.fromkeys((min(numbers), max(numbers)))))
        yield from ["", f"## {config.dataset}", ""]
        yield (
            f"{config.limit:,} training images, a tenth of them for validation; {config.network}, {config.epochs} "
            f"epochs, {seeds} seeds a setting. Errors in percent, mean ± standard deviation; "
            "differences are of test errors, paired by seed, with their 95% interval, bold where it excludes zero."
        )
        yield from table(runs)
        yield from labels(runs)


def table(runs: Mapping[str, Runs]) -> Iterator[str]:
    """Give a row a setting, the lowest validation error first."""
    yield from ["", "| setting | seeds | validation | test | minus max | minus uniform lines |"]
    yield "|---|---:|---:|---:|---:|---:|"
    for word in sorted(runs, key=lambda word: validation(runs[word])):
        versus = [minus(runs, word, other) for other in ("max", LINES)]
        parts = (estimate(list(part.values())) for part in (errors(runs[word], "validation"), errors(runs[word])))
        shown = word.replace("|", "\\|")
        yield f"| `{shown}` | {len(runs[word])} | {' | '.join(map(str, parts))} | {' | '.join(versus)} |"


def labels(runs: Mapping[str, Runs]) -> Iterator[str]:
    """Tell what labels add: every kind of score, as validation sets it, against energy and uniform."""
    runs = {word: found for word, found in runs.items() if len(found) >= SEEDS}
    yield ""
    yield f"What labels add, each kind of score as validation sets it, of the settings with {SEEDS} seeds:"
    yield ""
    yield from ["| | score | chosen | test | minus energy | minus uniform |", "|---|---|---|---:|---:|---:|"]
    draws = {score: [word] for score, word in DRAWS.items()}
    lines = {score: focused(score) for score in SCORES}
    for kind, candidates, uniform in (("draws", draws, UNIFORM), ("lines", lines, LINES)):
        chosen = {score: best(runs, each) for score, each in candidates.items()}
        for score, word in chosen.items():
            if word is None:
                continue
            energy = minus(runs, word, chosen["energy"]) if score != "energy" else ""
            test = estimate(list(errors(runs[word]).values()))
            shown = word.replace("|", "\\|")
            yield f"| {kind} | {score} | `{shown}` | {test} | {energy} | {minus(runs, word, uniform)} |"


def best(runs: Mapping[str, Runs], candidates: Iterable[str]) -> str | None:
    """Which has the lowest mean validation error."""
    known = [name for name in map(canonical, candidates) if name in runs]
    return min(known, key=lambda name: validation(runs[name]), default=None)


def minus(runs: Mapping[str, Runs], word: str | None, other: str | None) -> str:
    """Difference of test errors, in words; empty where there is nothing to compare."""
    if word is None or other is None or (word := canonical(word)) == (other := canonical(other)):
        return ""
    found = difference(errors(runs[word]), errors(runs[other])) if word in runs and other in runs else None
    return "" if found is None else f"**{found}**" if found.settled else str(found)


def errors(found: Runs, part: str = "test") -> dict[int, float]:
    """Top-1 errors by seed."""
    return {seed: getattr(summary, part).top1 for seed, summary in found.items()}


def validation(found: Runs) -> float:
    """Mean validation error."""
    return statistics.fmean(errors(found, "validation").values())


def canonical(word: str) -> str:
    """One spelling for every word."""
    return str(Places.parse(word))


INTRODUCTION = """# What the two steps are worth

Made by `benchmarks/two_steps.py` out of the runs in `results/background-mnist-lenet` and
`results/cluttered-mnist-lenet`. LeNet pools twice; `word|word` gives the first layer uniform lines and the second what
it says. Settings are chosen by validation error, never by test error. `multipartite` alone gathers smoothed maxima and
draws by `kl`; `gather=max` leaves them as they are; `temperature=inf` and `focus=0` are uniform; `energy` is the same
without labels. `focus=auto` with `energy` would be uniform, since nothing is learned.
""".splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", choices=DATASETS, help="train on this data set")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--first", type=int, help="train the first so many settings only")
    parser.add_argument("--write", type=Path, help="write the tables of all data sets here")
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.dataset:
        base = RunConfig(chosen.dataset, network=NETWORK, limit=chosen.limit, epochs=chosen.epochs, threads=1)
        grid = Grid(base, words()[: chosen.first], chosen.seeds)
        train_grid(grid, chosen.out / f"{chosen.dataset}-{NETWORK}", workers=chosen.jobs)
    if chosen.write:
        chosen.write.write_text("\n".join(pages(chosen.out)) + "\n")


if __name__ == "__main__":
    main()
