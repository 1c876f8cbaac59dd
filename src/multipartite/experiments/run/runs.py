"""Runs: one folder each, written atomically, finished once, resumed without surprises.

>>> from multipartite.experiments.run.runs import RunConfig, read_run, train_run
>>> import pathlib, tempfile
>>> out = pathlib.Path(tempfile.mkdtemp()) / "first"
>>> config = RunConfig("digits", pooling="max", epochs=2, seed=0, limit=300, threads=1)
>>> summary = train_run(config, out)  # trains, or goes on, or returns at once what is finished
>>> run = read_run(out)
>>> run.config.key == config.key, len(run.metrics), run.summary == summary
(True, 2, True)

`RunConfig`
    Every choice; ``config.key`` is the same for the same run wherever it is computed.
`train_run(config, out, *, progress=None, resume=True)`
    Returns the `Summary`. A finished run is returned as it is; an unfinished one goes on where its checkpoint
    stands; a folder of another run is refused with `InputError`. ``resume=False`` refuses any folder that
    holds a run. Ctrl-C and SIGTERM write a checkpoint and raise `Interrupted` (a KeyboardInterrupt).
`read_run(path)`
    Returns a `Run`: config, the list of `Epoch` so far, and the `Summary` or None.

A folder holds ``config.json`` (with versions and revision), ``metrics.jsonl``, ``checkpoint.safetensors``,
the one before it, and at the end ``summary.json``. Errors are in percent, speeds in images/s, memory in
bytes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multipartite.errors import InputError
from multipartite.experiments.run.config import FORMAT, RunConfig
from multipartite.experiments.run.files import leftovers, read_json, write_atomically, write_json
from multipartite.experiments.run.machine import revision, versions
from multipartite.experiments.run.metrics import Metrics

if TYPE_CHECKING:
    from multipartite.experiments.run.progress import Watcher

__all__ = ["Epoch", "Interrupted", "Metrics", "Run", "RunConfig", "Summary", "read_run", "train_run"]


class Interrupted(KeyboardInterrupt):
    """A run was stopped by the user or the system after it wrote a checkpoint."""


@dataclass(frozen=True)
class Epoch:
    """One line of ``metrics.jsonl``: `train` is the mean while training, `validation` is after the epoch."""

    epoch: int
    lr: float
    train: Metrics
    validation: Metrics | None
    samples_per_second: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for :mod:`json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Epoch:
        """Read what `to_json` gave."""
        return cls(**_metrics(values, "train", "validation"))


@dataclass(frozen=True)
class Summary:
    """What a finished run amounts to; `train`, `validation` and `test` are measured with the final weights.

    `initial`, `order` and `final` are digests of the initial weights, of the batch order and of the final
    state: equal digests, equal bits.
    """

    key: str
    train: Metrics
    validation: Metrics | None
    test: Metrics
    epochs: int
    parameters: int
    train_images: int
    samples_per_second: float
    seconds: float
    peak_memory: int
    device: str
    threads: int
    network: str
    initial: str
    order: str
    final: str

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for :mod:`json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Summary:
        """Read what `to_json` gave."""
        return cls(**_metrics(values, "train", "validation", "test"))


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it; `summary` is None until it is finished."""

    path: Path
    config: RunConfig
    metrics: list[Epoch]
    summary: Summary | None
    versions: dict[str, str]
    revision: str | None

    @property
    def finished(self) -> bool:
        """Whether the run has its summary."""
        return self.summary is not None


def _metrics(values: dict[str, Any], *names: str) -> dict[str, Any]:
    read = {name: values[name] and Metrics.from_json(values[name]) for name in names}
    return {**values, **read}


def train_run(config: RunConfig, out: Path | str, *, progress: Watcher | None = None, resume: bool = True) -> Summary:
    """Train the run that `config` describes in the folder `out`, or go on with it; see the module's words.

    Parameters
    ----------
    config : RunConfig
        What to train.
    out : Path
        The run's folder, made where it is missing.
    progress : Watcher, optional
        Told about every step and epoch.
    resume : bool
        Whether `out` may already hold this run.
    """
    from multipartite.experiments.run.launching import launch  # brings Fabric, which is slow to import

    return launch(config, Path(out), progress, resume)


def read_run(path: Path | str) -> Run:
    """Read the folder of a run, finished or not; see the module's example."""
    path = Path(path)
    try:
        head = read_json(path / "config.json")
    except FileNotFoundError:
        raise InputError(f"{path} holds no run: there is no config.json in it") from None
    except ValueError as error:
        raise InputError(f"{path / 'config.json'} is damaged ({error}); train the run again") from None
    found = head.get("format") if isinstance(head, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} holds a run of format {found}, this version reads format {FORMAT}: "
            "train it again into another folder, or read it with the version that wrote it"
        )
    lines = path / "metrics.jsonl"
    text = lines.read_text(encoding="utf-8") if lines.exists() else ""
    last = path / "summary.json"
    try:
        return Run(
            path=path,
            config=RunConfig.from_json(head["config"]),
            metrics=[Epoch.from_json(json.loads(line)) for line in text.splitlines()],
            summary=Summary.from_json(read_json(last)) if last.exists() else None,
            versions=head["versions"],
            revision=head["revision"],
        )
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"the run in {path} is damaged ({error!r}); train it again") from None


def find_run(config: RunConfig, out: Path, resume: bool) -> Run | None:
    """Give the run that `out` holds, None where a new one may go; another run or other files are refused."""
    if not (out / "config.json").exists():
        if out.exists() and (not out.is_dir() or set(out.iterdir()) - set(leftovers(out))):
            raise InputError(f"{out} is there and is no run: choose a new folder")
        return None
    run = read_run(out)
    if run.config.key != config.key:
        ours, theirs = config.to_json(), run.config.to_json()
        other = ", ".join(f"{k}={theirs[k]!r} not {v!r}" for k, v in ours.items() if theirs[k] != v)
        raise InputError(f"{out} holds another run ({other}): choose another folder")
    if not resume:
        state = "finished" if run.finished else "unfinished"
        raise InputError(f"{out} already holds this run, {state}: add --resume, or choose another folder")
    return run


def write_head(config: RunConfig, out: Path) -> None:
    """Make the folder of a new run, with what it is and where it was made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {out} ({error.strerror}): choose another") from error
    head = {"format": FORMAT, "key": config.key, "config": config.to_json()}
    write_json(out / "config.json", {**head, "versions": versions(), "revision": revision()})


def write_metrics(out: Path, history: list[Epoch]) -> None:
    """Write all epochs so far, whole or not at all."""
    lines = [json.dumps(epoch.to_json(), allow_nan=False) + "\n" for epoch in history]
    write_atomically(out / "metrics.jsonl", "".join(lines).encode())
