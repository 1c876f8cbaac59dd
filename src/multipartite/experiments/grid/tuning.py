"""The best multipartite setting within a time budget, by successive halving over ordinary run folders.

Every setting starts as a run of full length and rests after a ninth of its epochs; the better third goes on to a
third of them, the better third of those to the end. Going on costs nothing twice, for a run resumes from its
checkpoint. Settings are judged on the validation split alone: a run that rests has never read the test set.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from multipartite import pooling
from multipartite.errors import InputError
from multipartite.experiments.grid.comparison import place
from multipartite.experiments.grid.jobs import Job
from multipartite.experiments.grid.workers import run_jobs, workers_starting
from multipartite.experiments.run import networks
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.setup import assemble, prepare
from multipartite.experiments.run.store import read_run, write_json

__all__ = ["SPACE", "Trial", "Tuned", "rungs", "settings", "tune"]

SPACE: dict[str, tuple[object, ...]] = {  # the first of each is the layer's default, the paper's choice
    "assignment": ("hard", "stochastic", "soft"),
    "temperature": (1.0, 0.5, 2.0, math.inf),
    "criterion": ("kl", "information", "bhattacharyya", "ttest"),
    "projection": ("fisher", "orthogonal", "penalised"),
}
_KEPT = 3  # one in three goes on
_FIRST = 0.5  # of the time is for the first rung: it decides how many settings are seen at all


@dataclass(frozen=True, order=True)
class Trial:
    """A setting and its validation error, then objective, after `epochs`; the order puts the best first."""

    error: float
    objective: float
    word: str
    epochs: int


@dataclass(frozen=True)
class Tuned:
    """The best setting as a pooling word, and all trials, the best of the longest first."""

    word: str
    trials: tuple[Trial, ...]


def settings(channels: Sequence[int], num_classes: int) -> list[str]:
    """List every setting worth trying as a pooling word: groups that divide all layers, no idle option.

    Parameters
    ----------
    channels : sequence of int
        Channels that the pooling layers get.
    num_classes : int
        Of the data set.

    Examples
    --------
    >>> words = settings([20, 50], num_classes=10)
    >>> words[:2]
    ['multipartite', 'multipartite:groups=2']
    >>> any("groups=4" in word for word in words), any("groups=5" in word for word in words)
    (False, True)
    """
    common = math.gcd(*channels)
    space = {**SPACE, "groups": tuple(g for g in range(1, common + 1) if common % g == 0)}
    words: dict[str, None] = {}
    for values in itertools.product(*space.values()):
        options = dict(zip(space, values, strict=True))
        if options["assignment"] == "hard":
            del options["temperature"]
        elif options["temperature"] == math.inf:  # uniform: nothing is scored
            del options["criterion"], options["projection"]
        given = ",".join(f"{k}={v}" for k, v in sorted(options.items()) if v != space[k][0])
        words[f"multipartite:{given}" if given else "multipartite"] = None
    return [word for word in words if _valid(word, num_classes)]


def _valid(word: str, num_classes: int) -> bool:
    try:
        pooling.create(word, 2, num_classes=num_classes)
    except InputError:
        return False
    return True


def rungs(epochs: int) -> list[int]:
    """Epochs after which runs rest: a ninth, a third, all.

    Examples
    --------
    >>> rungs(20), rungs(2)
    ([3, 7, 20], [1, 2])
    """
    return sorted({math.ceil(epochs / 9), math.ceil(epochs / 3), epochs})


def tune(
    base: RunConfig, out: Path, *, minutes: float, workers: int = 1, say: Callable[[str], None] = lambda line: None
) -> Tuned:
    """Search the settings of multipartite pooling for at most `minutes`, in runs under `out`.

    Parameters
    ----------
    base : RunConfig
        Everything but the pooling; its seed also settles the order in which settings are tried.
    out : Path
        Folder of the runs, laid out as a comparison, and of ``tuning.json``.
    minutes : float
        Time for the search, from when the workers stand ready; the first rung gets half of it.
    workers : int
        Runs at once.
    say : callable
        Told in a sentence how far the search is.
    """
    if not minutes > 0:
        raise InputError(f"budget must be more than 0 minutes, got {minutes}")
    if not base.validation:
        raise InputError("tuning judges on the validation split: choose a validation share above 0")
    with workers_starting(workers):
        data = prepare(base)
        net = assemble(dataclasses.replace(base, pooling="max"), data)
    places = networks.pooling_layers(net, data.normalise(data.train.images[:1]))
    words = settings([place.channels for place in places], data.num_classes)
    random.Random(base.seed).shuffle(words)
    for known in ("multipartite:assignment=stochastic", "multipartite"):  # the paper's two readings come first
        words.insert(0, words.pop(words.index(known)))
    best: dict[str, Trial] = {}
    levels = rungs(base.epochs)
    began = time.time()  # a slow start of the workers is not taken off the search
    more = len(levels) - 1
    ends = [_FIRST + (1 - _FIRST) * k / more for k in range(more + 1)] if more else [1.0]
    for number, epochs in enumerate(levels, start=1):
        until = began + 60 * minutes * ends[number - 1]
        say(f"rung {number} of {len(levels)}: {len(words)} settings up to epoch {epochs}")
        jobs = [
            Job(dataclasses.replace(base, pooling=word), place(out, word, base.seed), epochs, until) for word in words
        ]
        failures = [outcome.failure for outcome in run_jobs(jobs, min(workers, len(jobs))) if outcome.failure]
        reached = sorted(trial for job in jobs if (trial := _trial(job, epochs)))
        if not reached:
            break
        best |= {trial.word: trial for trial in reached}
        say(f"best of {len(reached)}: {reached[0].word} with {reached[0].error:.2f}% validation error")
        words = [trial.word for trial in reached[: max(1, len(reached) // _KEPT)]]
    if not best:
        reason = f" ({failures[0]})" if failures else ""
        raise InputError(f"no setting reached epoch {levels[0]} within {minutes:g} minutes{reason}: raise --budget")
    trials = tuple(sorted(best.values(), key=lambda trial: (-trial.epochs, trial)))
    write_json(out / "tuning.json", [dataclasses.asdict(trial) for trial in trials])
    return Tuned(trials[0].word, trials)


def _trial(job: Job, epochs: int) -> Trial | None:
    """Read how a run stood after `epochs`, None where it did not get there."""
    try:
        metrics = read_run(job.folder).metrics
    except (InputError, json.JSONDecodeError):
        return None
    if len(metrics) < epochs or (validation := metrics[epochs - 1].validation) is None:
        return None
    return Trial(validation.top1, validation.objective, job.config.pooling, epochs)
