"""The summary of several comparisons: mean ranks, wins and losses, what is told apart, error against cost.

Ranks are taken over the poolings that all comparisons share, of their mean errors over the seeds that all of them have,
and what is told apart follows Demsar, see :mod:`multipartite.experiments.report.ranks`. Where a rival is ahead of every
multipartite pooling, that comes first.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from multipartite.errors import InputError, counted, unknown
from multipartite.experiments.grid.tuning import chosen
from multipartite.experiments.report.collection import BASELINE, Collection, collect
from multipartite.experiments.report.estimates import difference
from multipartite.experiments.report.figures import cost_figure, rank_figure
from multipartite.experiments.report.page import probability, render, write_files
from multipartite.experiments.report.ranks import ALPHA, critical_difference, friedman, groups, ranks
from multipartite.experiments.report.tables import Named, csv_text, tabulate
from multipartite.experiments.run.store import Summary as Finished
from multipartite.words import Places

__all__ = ["PARTS", "Standing", "Summary", "Tally", "find_comparisons", "summarise", "write_summary"]

PARTS = ("test", "validation")
_FEW = 10  # poolings that are left out, up to which it is said where each is missing


class Tally(NamedTuple):
    """Comparisons in which the seeds settle that a pooling is better, do not settle it, settle that it is worse."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        return f"{self.wins} / {self.ties} / {self.losses}"


@dataclass(frozen=True)
class Standing(Named):
    """One pooling over all comparisons.

    Attributes
    ----------
    pooling : str
        The word.
    rank : float
        Mean of `ranks`, one a comparison; 1 is best.
    errors : tuple of float
        Mean error over the seeds in percent, one a comparison.
    relative : float, optional
        Mean over the comparisons of the error as a multiple of max pooling's; None without max pooling.
    time : float, optional
        Time that training takes, as a multiple of max pooling's: the median over the comparisons.
    against_max, against_all : Tally
        Over all comparisons, against max pooling (None for itself), and against all the others.
    settings : tuple of str
        The word that stood for it in every comparison: itself, or the best of its family by validation.
    """

    rank: float
    ranks: tuple[float, ...]
    errors: tuple[float, ...]
    relative: float | None
    time: float | None
    against_max: Tally | None
    against_all: Tally
    settings: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """Whether it is multipartite pooling, in any place and with any options."""
        return any(word.name.partition("-")[0] == "multipartite" for word in Places.parse(self.pooling).words)


@dataclass(frozen=True)
class Summary:
    """What several comparisons say together; `standings` go by mean rank.

    `seeds` says of how many seeds the means of every comparison are: those that all its ranked poolings have.
    `left_out` gives, by pooling, the comparisons that lack it, `warnings` what else is missing. `p` is the probability
    by chance of ranks that differ this much (None for too few), and mean ranks are told apart where they differ by
    more than `critical`.
    """

    part: str
    comparisons: tuple[str, ...]
    seeds: tuple[int, ...]
    standings: tuple[Standing, ...]
    left_out: dict[str, tuple[str, ...]]
    warnings: tuple[str, ...]
    p: float | None
    critical: float
    pairs: dict[tuple[str, str], Tally]

    @property
    def groups(self) -> list[tuple[int, int]]:
        """Largest groups of standings that are not told apart, by first and last place."""
        return groups([each.rank for each in self.standings], self.critical)

    def told_apart(self, one: Standing, two: Standing) -> bool:
        """Whether the ranks of two poolings differ by more than chance: Friedman's test first, then Nemenyi's."""
        some = self.p is None or self.p < ALPHA  # of two poolings, the second is the whole test
        return some and abs(one.rank - two.rank) > self.critical

    @property
    def headline(self) -> str:
        """The gist in a sentence; that a rival is ahead of ours comes first."""
        first = self.standings[0]
        ours = next((each for each in self.standings if each.ours), None)
        rivals = [each for each in self.standings if not each.ours]
        place = f"over {len(self.comparisons)} comparisons"
        if ours is None or not rivals:
            return f"{first.pooling} has the lowest mean rank, {first.rank:.2f}, {place}"
        ahead = [each for each in rivals if each.rank < ours.rank]
        if ahead:
            names = ", ".join(f"{each.pooling} ({each.rank:.2f})" for each in ahead)
            who = "A rival is" if len(ahead) == 1 else f"{len(ahead)} rivals are"
            best = f"our best, {ours.pooling}, has {ours.rank:.2f}"
            return f"{who} ahead of ours by mean rank {place}: {names}; {best} and is {self._apart(ours, ahead[0])}"
        rival = rivals[0]
        if rival.rank == ours.rank:
            return f"{ours.pooling} and a rival, {rival.pooling}, are level: mean rank {ours.rank:.2f} {place}"
        best = f"{ours.pooling} has the lowest mean rank, {ours.rank:.2f}, {place}"
        return f"{best}; the best rival, {rival.pooling}, has {rival.rank:.2f} and is {self._apart(rival, ours)}"

    def _apart(self, one: Standing, two: Standing) -> str:
        return f"{'' if self.told_apart(one, two) else 'not '}told apart from {two.pooling}"

    @property
    def priced(self) -> bool:
        """Whether error and time are known as multiples of max pooling's."""
        return all(each.relative is not None and each.time is not None for each in self.standings)

    @property
    def titles(self) -> list[str]:
        """Comparisons, with how many seeds their means are of."""
        return [f"{name} ({counted(n, 'seed')})" for name, n in zip(self.comparisons, self.seeds, strict=True)]

    @property
    def best_ranks(self) -> list[float]:
        """The lowest rank of every comparison."""
        return [min(each.ranks[i] for each in self.standings) for i in range(len(self.comparisons))]

    @property
    def findings(self) -> list[str]:
        """What is behind the headline, a sentence each."""
        k, N = len(self.standings), len(self.comparisons)
        if self.p is None:
            chance = "Friedman's test needs three poolings"
        else:
            differ = "differ by more than chance" if self.p < ALPHA else "do not differ by more than chance"
            chance = f"The mean ranks of {k} poolings over {N} comparisons {differ} (Friedman, p {probability(self.p)})"
        told = f"two poolings are told apart from a difference of {self.critical:.2f} on (Nemenyi, 5%)"
        best: dict[str, list[str]] = {}
        for i, name in enumerate(self.comparisons):
            lowest = min(self.standings, key=lambda each: each.errors[i])
            best.setdefault(lowest.pooling, []).append(name)
        wins = "; ".join(f"{pooling} on {', '.join(names)}" for pooling, names in best.items())
        found = [f"{chance}; {told}.", f"Lowest {self.part} error: {wins}."]
        if settings := [self._settings(each) for each in self.standings if set(each.settings) != {each.pooling}]:
            found.append(f"One row a name, and the setting that stood for it: {'; '.join(settings)}.")
        if self.left_out:
            found.append(f"Left out, because not every comparison has them: {self._missing()}.")
        return found

    def _missing(self) -> str:
        """Name what is left out, and where it is missing; where they are many, settings of one name together."""
        if len(self.left_out) <= _FEW:
            return "; ".join(f"{pooling} (not in {', '.join(lack)})" for pooling, lack in self.left_out.items())
        by_family: dict[str, list[str]] = {}
        for pooling in self.left_out:
            by_family.setdefault(_family(pooling), []).append(pooling)
        return "; ".join(
            poolings[0] if len(poolings) == 1 else f"{counted(len(poolings), 'setting')} of {family}"
            for family, poolings in by_family.items()
        )

    def _settings(self, each: Standing) -> str:
        by_setting: dict[str, list[str]] = {}
        for name, setting in zip(self.comparisons, each.settings, strict=True):
            by_setting.setdefault(setting, []).append(name)
        return ", ".join(f"{setting} on {' and '.join(names)}" for setting, names in by_setting.items())

    def chart_data(self) -> dict[str, Any]:
        """Give what the page's script draws."""
        rows = [
            {
                "pooling": each.pooling,
                "name": each.name,
                "options": each.options,
                "rank": each.rank,
                "ranks": each.ranks,
                "relative": each.relative,
                "time": each.time,
            }
            for each in self.standings
        ]
        return {
            "rows": rows,
            "critical": self.critical,
            "groups": self.groups,
            "comparisons": self.comparisons,
            "baseline": BASELINE,
        }


def find_comparisons(folders: Sequence[Path | str]) -> list[Path]:
    """Find the folders of comparisons: those given, or those inside of a folder that holds several.

    Files are passed over, so that a pattern such as ``results/*`` may meet some.

    Examples
    --------
    >>> find_comparisons(["no such folder"])
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: no such folder is not there: give folders of comparisons
    """
    found: list[Path] = []
    for folder in map(Path, folders):
        if not folder.exists():
            raise InputError(f"{folder} is not there: give folders of comparisons")
        if not folder.is_dir():
            continue
        inside = sorted(path.parent for path in folder.rglob("runs") if path.is_dir())
        found += [folder] if (folder / "runs").is_dir() or not inside else inside
    if len(set(found)) < 2:
        raise InputError(
            f"a summary is over several comparisons, got {len(set(found))}: give more folders, or use "
            "`multipartite report` for one"
        )
    return list(dict.fromkeys(found))


def summarise(
    folders: Sequence[Path | str],
    part: str = "test",
    *,
    families: bool = False,
    tuned: bool = False,
    poolings: str | None = None,
) -> Summary:
    """Rank the poolings that all comparisons share.

    Parameters
    ----------
    folders : sequence of Path
        Folders of comparisons, or folders that hold several.
    part : {"test", "validation"}
        Which error ranks them; a default is chosen by validation, and judged by test.
    families : bool
        Whether poolings of one name are one row: in every comparison the setting with the lowest validation error.
    tuned : bool
        Whether they are one row, too, but the setting is the one that `tune` chose in the folder of the comparison,
        and the pooling as it comes where it was not tuned there: every family has the budget that it was given.
    poolings : str, optional
        Rank these rows alone, words with commas between them: where they have more seeds than the others, all count.
    """
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    if families and tuned:
        raise InputError("a row is the best setting of a family or the one that was tuned: choose one of the two")
    places = find_comparisons(folders)
    names = [path.name if [each.name for each in places].count(path.name) == 1 else str(path) for path in places]
    found = dict(zip(names, map(collect, places), strict=True))
    choose = _best_of_families if families else _tuned if tuned else _all
    words = {name: choose(name, collection) for name, collection in found.items()}
    if poolings is not None:
        words = _only(Places.split(poolings), words)
    tables = {
        name: {pooling: collection.summaries[word] for pooling, word in words[name].items()}
        for name, collection in found.items()
    }
    errors = {name: _errors(name, table, part) for name, table in tables.items()}
    everything = dict.fromkeys(pooling for table in errors.values() for pooling in table)
    lacking = {p: tuple(name for name, table in errors.items() if p not in table) for p in everything}
    shared = [pooling for pooling, lack in lacking.items() if not lack]
    if len(shared) < 2:
        raise InputError(
            f"the comparisons share {len(shared)} poolings ({', '.join(shared) or 'none'}), ranks need two: "
            f"train the same poolings in {', '.join(map(str, places))}"
        )
    seeds = {name: _common_seeds(name, {p: table[p] for p in shared}) for name, table in errors.items()}
    means = [_means(table, shared, seeds[name]) for name, table in errors.items()]  # [N][k]
    each_rank = ranks(means)
    origins = [{pooling: found[name].origins[word] for pooling, word in words[name].items()} for name in names]
    times = _times(zip(tables.values(), origins, strict=True), shared)
    pairs = {(one, two): _tally(errors.values(), one, two) for one in shared for two in shared if one != two}
    standings = []
    for i, pooling in enumerate(shared):
        against = [tally for (one, _), tally in pairs.items() if one == pooling]
        standings.append(
            Standing(
                pooling=pooling,
                rank=float(each_rank[:, i].mean()),
                ranks=tuple(map(float, each_rank[:, i])),
                errors=tuple(row[i] for row in means),
                relative=_relative(means, i, shared.index(BASELINE)) if BASELINE in shared else None,
                time=times.get(pooling),
                against_max=pairs.get((pooling, BASELINE)),
                against_all=Tally(*map(sum, zip(*against, strict=True))),
                settings=tuple(words[name][pooling] for name in names),
            )
        )
    return Summary(
        part=part,
        comparisons=tuple(names),
        seeds=tuple(map(len, seeds.values())),
        standings=tuple(sorted(standings, key=lambda each: (each.rank, each.pooling))),
        left_out={pooling: lack for pooling, lack in lacking.items() if lack},
        warnings=tuple(warning for name, collection in found.items() for warning in _missing(name, collection)),
        p=friedman(means),
        critical=critical_difference(len(shared), len(places)),
        pairs=pairs,
    )


def _family(word: str) -> str:
    """Names of the poolings in a word, without their options."""
    return "|".join(dict.fromkeys(each.name for each in Places.parse(word).words))


def _all(name: str, collection: Collection) -> dict[str, str]:
    """Which word stands for each row: itself."""
    return {word: word for word in collection.runs}


def _tuned(name: str, collection: Collection) -> dict[str, str]:
    """Which word stands for each name: what `tune` chose in the folder, else the name itself."""
    found = {word: word for word in collection.runs if word == _family(word)}
    for family, word in chosen(collection.folder).items():
        found[family] = str(Places.parse(word))
        if found[family] not in collection.runs:
            raise InputError(f"{name}: tune chose {word}, which is not tested there: compare it with the others")
    return found


def _best_of_families(name: str, collection: Collection) -> dict[str, str]:
    """Which word stands for each family: the one with the lowest mean validation error."""
    errors = _errors(name, collection.summaries, "validation")
    settings: dict[str, list[str]] = {}
    for word in sorted(errors):
        settings.setdefault(_family(word), []).append(word)
    found: dict[str, str] = {}
    for family, words in settings.items():
        seeds = _common_seeds(name, {word: errors[word] for word in words})
        means = dict(zip(words, _means(errors, words, seeds), strict=True))
        found[family] = min(words, key=means.__getitem__)
    return found


def _only(wanted: Iterable[Places], words: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Keep the wanted rows of every comparison; one that no comparison has is a mistake."""
    rows = {row for table in words.values() for row in table}
    for row in (kept := list(dict.fromkeys(map(str, wanted)))):
        if row not in rows:
            raise unknown("pooling of these comparisons:", row, sorted(rows))
    return {name: {row: table[row] for row in kept if row in table} for name, table in words.items()}


def _common_seeds(name: str, errors: Mapping[str, Mapping[int, float]]) -> list[int]:
    """Seeds that all of some poolings have: a seed has its own validation images, easy or hard."""
    common = sorted(set.intersection(*(set(seeds) for seeds in errors.values())))
    if not common:
        raise InputError(
            f"{name}: {', '.join(errors)} have no seed in common, ranks need one: train them with the same"
        )
    return common


def _means(errors: Mapping[str, Mapping[int, float]], words: Iterable[str], seeds: Sequence[int]) -> list[float]:
    return [statistics.fmean(errors[word][seed] for seed in seeds) for word in words]


def _errors(name: str, table: Mapping[str, Mapping[int, Finished]], part: str) -> dict[str, dict[int, float]]:
    """Errors of a comparison by pooling and seed."""
    found: dict[str, dict[int, float]] = {}
    for pooling, runs in table.items():
        for seed, run in runs.items():
            metrics = getattr(run, part)
            if metrics is None:
                raise InputError(f"{name} has no validation errors: rank by test, or train with a validation share")
            found.setdefault(pooling, {})[seed] = metrics.top1
    return found


def _missing(name: str, collection: Collection) -> list[str]:
    """Say which runs of a comparison do not count."""
    found = [f"Left out: {sentence}." for sentence in collection.damaged]
    if collection.unfinished:
        found.append(f"Unfinished and left out in {name}: {', '.join(collection.unfinished)}.")
    return found


def _tally(tables: Iterable[Mapping[str, Mapping[int, float]]], one: str, two: str) -> Tally:
    """How often the seeds settle that the first of two poolings has the lower error."""
    wins = losses = ties = 0
    for errors in tables:
        found = difference(errors[one], errors[two])
        if found is None or not found.settled:
            ties += 1
        elif found.mean < 0:
            wins += 1
        else:
            losses += 1
    return Tally(wins, ties, losses)


def _relative(means: Sequence[Sequence[float]], i: int, base: int) -> float | None:
    shares = [row[i] / row[base] for row in means if row[base] > 0]
    return statistics.fmean(shares) if shares else None


def _times(
    tables: Iterable[tuple[Mapping[str, Mapping[int, Finished]], Mapping[str, Mapping[int, object]]]],
    shared: Sequence[str],
) -> dict[str, float]:
    """Median over the comparisons of the time of training as a multiple of max pooling's, of runs of the same code."""
    found: dict[str, list[float]] = {}
    for table, origins in tables:
        for row in tabulate(table, "", origins):
            if row.ratio is not None and row.pooling in shared:
                found.setdefault(row.pooling, []).append(1 / row.ratio)
    return {pooling: statistics.median(values) for pooling, values in found.items()}


def write_summary(
    folders: Sequence[Path | str],
    out: Path | str = "summary",
    part: str = "test",
    *,
    families: bool = False,
    tuned: bool = False,
    poolings: str | None = None,
) -> tuple[Path, Summary]:
    """Write the summary of several comparisons, one HTML page, Markdown, CSV and PNG; give the page and the numbers.

    Parameters
    ----------
    folders : sequence of Path
        Folders of comparisons, or folders that hold several.
    out : Path
        Where the summary goes.
    part : {"test", "validation"}
        Which error ranks the poolings.
    families, tuned : bool
        Whether poolings of one name are one row: its best setting by validation, or the one that `tune` chose.
    poolings : str, optional
        Rank these rows alone.
    """
    found = summarise(folders, part, families=families, tuned=tuned, poolings=poolings)
    out = Path(out)
    files: dict[str, bytes] = {
        "summary.csv": csv_text(map(_record, found.standings)).encode(),
        "errors.csv": csv_text(_error_records(found)).encode(),
        "pairs.csv": csv_text(_pair_records(found.pairs)).encode(),
        "ranks.png": rank_figure({e.pooling: e.ranks for e in found.standings}, found.critical, found.groups),
        "summary.md": render("summary.md", found).encode(),
        "summary.html": render("summary.html", found).encode(),
    }
    if found.priced:
        places = {e.pooling: (e.time, e.relative) for e in found.standings if e.time and e.relative is not None}
        files["cost.png"] = cost_figure(places)
    write_files(out, files)
    return out / "summary.html", found


def _record(each: Standing) -> dict[str, object]:
    record: dict[str, object] = {"pooling": each.pooling, "mean_rank": each.rank}
    for name, tally in (("max", each.against_max), ("all", each.against_all)):
        for kind in Tally._fields:
            record[f"{kind}_against_{name}"] = getattr(tally, kind, None)
    return record | {"error_relative_to_max": each.relative, "training_time_relative_to_max": each.time}


def _error_records(found: Summary) -> list[dict[str, object]]:
    return [
        {
            "comparison": name,
            "pooling": each.pooling,
            "setting": each.settings[i],
            "error": each.errors[i],
            "rank": each.ranks[i],
        }
        for i, name in enumerate(found.comparisons)
        for each in found.standings
    ]


def _pair_records(pairs: Mapping[tuple[str, str], Tally]) -> list[dict[str, object]]:
    return [{"pooling": one, "against": two, **tally._asdict()} for (one, two), tally in pairs.items()]
