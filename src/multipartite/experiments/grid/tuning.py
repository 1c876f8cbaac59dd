"""The best setting of a pooling within a time budget: a search by optuna over ordinary run folders.

A trial is a setting, trained with one seed or the mean of several. Its runs rest after a ninth and a third of their
epochs. Where it is not among the better third of those that came as far, it is given up (asynchronous successive
halving), unless every one is to go its whole length, as is fair to those that draw and learn more slowly. First come
the default and what did well elsewhere (`PROMISING`); what to try next, the trials so far suggest (tree-structured
Parzen estimator). Going on costs nothing twice, for a run resumes from its checkpoint. Settings are judged on the
validation split alone: a run that rests has never read the test set, and so has none of those that reached their last
epoch.

What is tried is a *space*, a function of `pick` that returns the options of a word. ``pick(name, *values)`` gives one
of the values, the first of them the layer's default; what is picked may decide what is picked next::

    def blur(pick, channels):
        return {"width": pick("width", 3, 2, 5)}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from multipartite import pooling
from multipartite.errors import InputError, counted
from multipartite.experiments.grid.comparison import check_settings, place
from multipartite.experiments.grid.jobs import Job, Outcome, run_jobs, workers_starting
from multipartite.experiments.run import networks
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import read_run, write_json
from multipartite.registry import Registry
from multipartite.words import Word

if TYPE_CHECKING:
    import optuna

__all__ = ["PROMISING", "SPACES", "Setting", "Space", "Trial", "Tuned", "chosen", "rungs", "settings", "tune"]

Pick: TypeAlias = Callable[..., Any]  # (name, *values) -> one of the values
Space: TypeAlias = Callable[[Pick, Sequence[int]], dict[str, Any]]  # (pick, channels of the places) -> options

_KEPT = 3  # one in three goes on
_TRIES = 5  # how often a suggestion may be one that is known, until a new one is drawn


def _multipartite(pick: Pick, channels: Sequence[int]) -> dict[str, Any]:
    from multipartite.criteria import for_rows  # torch, which a mistyped name is answered without

    common = math.gcd(*channels)
    options = {
        "gather": pick("gather", "auto", "max", None, "stochastic", "average"),
        "assignment": pick("assignment", "stochastic", "lines", "hard", "soft"),
        "groups": pick("groups", *(g for g in range(1, common + 1) if common % g == 0)),
    }
    if options["assignment"] == "lines":
        options["focus"] = pick("focus", "auto", 0, 0.25, 0.5, 0.75)
        uniform = options["focus"] == 0
    elif options["assignment"] == "hard":
        uniform = False
    else:
        options["temperature"] = pick("temperature", 1.0, 0.5, 2.0, math.inf)
        uniform = options["temperature"] == math.inf
    if uniform:  # nothing is scored
        return options
    options["criterion"] = pick("criterion", *for_rows())
    if options["criterion"] != "energy":
        options["projection"] = pick("projection", "fisher", "orthogonal", "penalised")
    return options


def _blur(pick: Pick, channels: Sequence[int]) -> dict[str, Any]:
    return {"width": pick("width", 4, 2, 3, 5, 7)}


def _gated(pick: Pick, channels: Sequence[int]) -> dict[str, Any]:
    return {"per": pick("per", "layer", "channel")}


def _lp(pick: Pick, channels: Sequence[int]) -> dict[str, Any]:
    return {"p": pick("p", 2.0, 1.0, 3.0, 4.0, 8.0, math.inf)}


def _s3(pick: Pick, channels: Sequence[int]) -> dict[str, Any]:
    return {"grid_size": pick("grid_size", None, 4, 6, 8, 16)}  # multiples of a stride of 2


SPACES: Registry[Space] = Registry(
    "pooling that can be tuned",
    {"blur": _blur, "gated": _gated, "lp": _lp, "multipartite": _multipartite, "s3": _s3},
)

PROMISING: dict[str, tuple[str, ...]] = {  # of large spaces, what is tried after the default and before all else
    "multipartite": (
        "multipartite:assignment=lines,focus=0",
        "multipartite:gather=max",
        "multipartite:criterion=energy",
        "multipartite:assignment=lines,focus=0,gather=max",
    )
}


@dataclass(frozen=True)
class Setting:
    """A pooling word that says what differs from the defaults, and everything that was picked for it."""

    word: str
    picked: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, order=True)
class Trial:
    """A setting and its validation error, then objective, after `epochs`, means of `seeds`; the best comes first."""

    error: float
    objective: float
    word: str
    epochs: int
    seeds: int = 1


@dataclass(frozen=True)
class Tuned:
    """The best setting as a pooling word, and all trials, the best of the longest first."""

    word: str
    trials: tuple[Trial, ...]


def settings(name: str, channels: Sequence[int], num_classes: int) -> list[Setting]:
    """List every setting of a pooling's space that its layer accepts, the default first.

    Parameters
    ----------
    name : str
        A pooling of `SPACES`.
    channels : sequence of int
        Channels that the pooling layers get.
    num_classes : int
        Of the data set.

    Examples
    --------
    >>> found = [setting.word for setting in settings("multipartite", [20, 50], num_classes=10)]
    >>> found[0], "multipartite:groups=5" in found, "multipartite:groups=4" in found
    ('multipartite', True, False)
    """
    found: dict[str, Setting] = {}
    left: list[list[tuple[str, Any]]] = [[]]
    while left:
        pick = _Told(left.pop())
        word = _word(name, channels, pick)
        left += reversed(pick.others)
        found.setdefault(word, Setting(word, tuple(pick.picked)))
    return [setting for setting in found.values() if _valid(setting.word, num_classes)]


class _Told:
    """Picks what it is told, then what comes first; `others` is what else could have been picked."""

    def __init__(self, told: list[tuple[str, Any]]) -> None:
        self.told = told
        self.picked: list[tuple[str, Any]] = []
        self.others: list[list[tuple[str, Any]]] = []

    def __call__(self, name: str, *values: Any) -> Any:
        if len(self.picked) < len(self.told):
            value = self.told[len(self.picked)][1]
        else:
            value = values[0]
            self.others += [[*self.picked, (name, other)] for other in values[1:]]
        self.picked.append((name, value))
        return value


def _word(name: str, channels: Sequence[int], pick: Pick) -> str:
    """Write what a pooling's space picks as a word, without what is the default anyway."""
    defaults: dict[str, Any] = {}

    def noted(option: str, *values: Any) -> Any:
        defaults[option] = values[0]
        return pick(option, *values)

    options = SPACES[name](noted, channels)
    return str(Word.of(name, **{k: v for k, v in options.items() if k not in defaults or v != defaults[k]}))


def _valid(word: str, num_classes: int) -> bool:
    try:
        pooling.create(word, 2, num_classes=num_classes)
    except InputError:
        return False
    return True


def chosen(folder: Path) -> dict[str, str]:
    """Read which settings the searches in a folder chose, by the name of the pooling.

    Examples
    --------
    >>> chosen(Path("no/such/folder"))
    {}
    """
    return {path.stem.removeprefix("tuning-"): _first_word(path) for path in sorted(folder.glob("tuning-*.json"))}


def _first_word(path: Path) -> str:
    try:
        return str(json.loads(path.read_text())[0]["word"])
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is not what tune writes: delete it, and run the search again") from error


def rungs(epochs: int) -> list[int]:
    """Epochs after which runs rest: about a ninth, three times that, all.

    Examples
    --------
    >>> rungs(20), rungs(2)
    ([3, 9, 20], [1, 2])
    """
    first = math.ceil(epochs / _KEPT**2)
    return sorted({first, min(_KEPT * first, epochs), epochs})


def tune(
    base: RunConfig,
    out: Path,
    *,
    minutes: float,
    name: str = "multipartite",
    seeds: int = 1,
    trials: int | None = None,
    halving: bool = True,
    workers: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Tuned:
    """Search the settings of a pooling for at most `minutes`, in runs under `out`; a search that was made goes on.

    Parameters
    ----------
    base : RunConfig
        Everything but the pooling; its seed also settles what is tried first.
    out : Path
        Folder of the runs, laid out as a comparison, of optuna's journal and of ``tuning-NAME.json``.
    minutes : float
        Time for the search, from when the workers stand ready.
    name : str
        A pooling of `SPACES`.
    seeds : int
        How many seeds, from that of `base` on, a setting is judged by: the mean of their errors.
    trials : int, optional
        Settings to try at the most, those of an earlier search included.
    halving : bool
        Whether the worse settings are given up early.
    workers : int
        Runs at once.
    say : callable
        Told in a sentence how far the search is.
    """
    if not minutes > 0:
        raise InputError(f"budget must be more than 0 minutes, got {minutes}")
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    if trials is not None and trials < 1:
        raise InputError(f"trials must be at least 1, got {trials}")
    if not base.validation:
        raise InputError("tuning judges on the validation split: choose a validation share above 0")
    SPACES[name]  # or refuse it
    check_settings(base, out)
    with workers_starting(workers):
        from multipartite.experiments.run.training import assemble, prepare  # bring torch

        data = prepare(base)
        net = assemble(dataclasses.replace(base, pooling="max"), data)
        places = networks.pooling_layers(net, data.normalise(data.train.images[:1]))
        channels = [place.channels for place in places]
        known = settings(name, channels, data.num_classes)
    levels = rungs(base.epochs) if halving else [base.epochs]
    configs = [dataclasses.replace(base, seed=base.seed + i) for i in range(seeds)]
    most = len(known) if trials is None else min(trials, len(known))
    search = _Search(configs, out, name, channels, known, levels, most, until=time.time() + 60 * minutes, say=say)
    for outcome in run_jobs(search.jobs(), workers):
        search.hear(outcome)
    return search.result(minutes)


class _Search:
    """What optuna is asked and told; `jobs` gives what to train next, `hear` takes what came of it."""

    def __init__(
        self,
        configs: Sequence[RunConfig],
        out: Path,
        name: str,
        channels: Sequence[int],
        known: Sequence[Setting],
        levels: Sequence[int],
        most: int,
        *,
        until: float,
        say: Callable[[str], None],
    ) -> None:
        self.configs, self.out, self.name, self.channels = configs, out, name, channels
        self.known, self.levels, self.most, self.until, self.say = known, levels, most, until, say
        self.epochs = configs[0].epochs
        self.words = {setting.word for setting in known}
        self.study = _open_study(configs, out, known, levels)
        self.running: dict[Path, tuple[optuna.Trial, int]] = {}  # by folder: the trial, and which rung it is on
        self.waiting: list[Job] = []
        self.best: dict[str, Trial] = {}
        self.failure = ""
        self.seen = self._take_up()

    def _take_up(self) -> set[str]:
        """Read what an earlier search did; trials that it did not bring to an end come first now."""
        import optuna

        ended, open_ = set(), []
        for trial in self.study.get_trials(deepcopy=False):
            word = trial.user_attrs.get("word")
            if trial.state is optuna.trial.TrialState.RUNNING:
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
                open_.append(trial.params)
            elif word is not None and trial.state is not optuna.trial.TrialState.WAITING:
                ended.add(word)
                self._note(word)
        for params in open_:
            self.study.enqueue_trial(params, skip_if_exists=False)
        if not ended and not open_:
            first = [self.known[0].word, *PROMISING.get(self.name, ())]
            for setting in sorted((s for s in self.known if s.word in first), key=lambda s: first.index(s.word)):
                self.study.enqueue_trial(dict(setting.picked))
        if ended:
            self.say(f"{len(ended)} settings were tried before")
        return ended

    def _note(self, word: str) -> dict[int, Trial]:
        """Read how well the runs of a setting stood at every rung that all reached; keep the last of them."""
        try:
            runs = [read_run(place(self.out, word, config.seed)).metrics for config in self.configs]
        except InputError:
            return {}
        found = {}
        for level in self.levels:
            after = [metrics[level - 1].validation for metrics in runs if level <= len(metrics)]
            told = [each for each in after if each is not None]
            if len(told) == len(runs):
                error, objective = fmean(each.top1 for each in told), fmean(each.objective for each in told)
                found[level] = self.best[word] = Trial(error, objective, word, level, len(runs))
        return found

    def jobs(self) -> Iterator[Job | None]:
        """Give those that go on first, then new ones; None where all that there is is tried or being tried."""
        while time.time() < self.until:
            if not self.waiting:
                self._begin()
            yield self.waiting.pop(0) if self.waiting else None

    def _begin(self) -> None:
        """Ask for another setting, if there are to be more."""
        import optuna

        if len(self.seen) >= self.most:
            return
        for attempt in range(_TRIES + 1):
            if attempt == _TRIES:  # suggestions go round in circles: draw one that is new
                unseen = [setting for setting in self.known if setting.word not in self.seen]
                chosen = random.Random(f"{self.configs[0].seed} {len(self.seen)}").choice(unseen)
                self.study.enqueue_trial(dict(chosen.picked))
            trial = self.study.ask()
            word = _word(self.name, self.channels, partial(_suggested, trial))
            if word not in self.seen and word in self.words:
                break
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)  # known already, or refused by the layer
        self.seen.add(word)
        trial.set_user_attr("word", word)
        self._train(trial, word, 0)

    def _train(self, trial: optuna.Trial, word: str, rung: int) -> None:
        """Let the runs of a setting wait for their turn, before any that came later."""
        jobs = []
        for config in self.configs:
            folder = place(self.out, word, config.seed)
            self.running[folder] = trial, rung
            jobs.append(Job(dataclasses.replace(config, pooling=word), folder, self.levels[rung], self.until))
        self.waiting[:0] = jobs

    def hear(self, outcome: Outcome) -> None:
        """Tell optuna how a setting stands when all its runs have come as far, and let it go on or not."""
        import optuna

        if outcome.job.folder not in self.running:
            return  # of a setting that failed with another seed
        trial, rung = self.running.pop(outcome.job.folder)
        word, level = outcome.job.config.pooling, self.levels[rung]
        if outcome.failure is not None:
            self.failure = outcome.failure
            self.say(f"{word}: {outcome.failure}")
            self.running = {folder: each for folder, each in self.running.items() if each[0] is not trial}
            self.waiting = [job for job in self.waiting if job.config.pooling != word]
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        if any(other is trial for other, _ in self.running.values()):
            return
        found = self._note(word).get(level)
        if found is None:
            return  # time is up: the trial stays open, for a search that goes on
        trial.report(found.error, level)
        ahead = min(self.best.values(), key=_rank)
        self.say(
            f"{word}: {found.error:.2f}% after {level} of {counted(self.epochs, 'epoch')}; "
            f"best of {len(self.best)}: {ahead.word} with {ahead.error:.2f}% after {ahead.epochs}"
        )
        if rung + 1 == len(self.levels):
            self.study.tell(trial, found.error)
        elif trial.should_prune():
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            self._train(trial, word, rung + 1)

    def result(self, minutes: float) -> Tuned:
        """Rank the trials and write them down."""
        if not self.best:
            reason = f" ({self.failure})" if self.failure else ""
            first = f"no setting reached epoch {self.levels[0]} within {minutes:g} minutes"
            raise InputError(f"{first}{reason}: raise --budget")
        trials = tuple(sorted(self.best.values(), key=_rank))
        write_json(self.out / f"tuning-{self.name}.json", [dataclasses.asdict(trial) for trial in trials])
        return Tuned(trials[0].word, trials)


def _suggested(trial: optuna.Trial, name: str, *values: Any) -> Any:
    return trial.suggest_categorical(name, values)


def _rank(trial: Trial) -> tuple[int, Trial]:
    """Sort the longest first, and the best of these."""
    return -trial.epochs, trial


def _open_study(
    configs: Sequence[RunConfig], out: Path, known: Sequence[Setting], levels: Sequence[int]
) -> optuna.Study:
    """Open the journal of a search, or begin it; one of another space, length or number of seeds has its own there."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(out / "tuning.journal"))),
        study_name=hashlib.sha256(repr(([config.key for config in configs], known, levels)).encode()).hexdigest()[:16],
        sampler=optuna.samplers.TPESampler(seed=configs[0].seed % 2**32),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=levels[0], reduction_factor=_KEPT),
        load_if_exists=True,
    )
