"""The folder of a run: which files it holds, in which format, each written whole or not at all.

======================================  =======================================================================
``config.json``                         every choice, the run's key, versions and revision
``metrics.jsonl``                       a line an epoch, an :class:`Epoch` each
``checkpoint.safetensors``              where the run stands; ``checkpoint-previous.safetensors`` is the one before
``summary.json``                        at the end, a :class:`Summary`
======================================  =======================================================================

Errors are in percent, speeds in images/s, memory in bytes. Nothing here imports torch: reading a run is quick.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from typing_extensions import Self

from multipartite import __version__
from multipartite.errors import InputError
from multipartite.experiments.run.config import FORMAT, RunConfig
from multipartite.words import Places, Word

__all__ = [
    "CHECKPOINT",
    "PREVIOUS",
    "Epoch",
    "Metrics",
    "Progress",
    "Run",
    "Summary",
    "check_writable",
    "find_run",
    "is_run",
    "leftovers",
    "lock_file",
    "locked",
    "progress",
    "read_run",
    "versions",
    "write_atomically",
    "write_head",
    "write_json",
    "write_metrics",
    "write_summary",
]

CHECKPOINT = "checkpoint.safetensors"
PREVIOUS = "checkpoint-previous.safetensors"
_CONFIG = "config.json"
_METRICS = "metrics.jsonl"
_SUMMARY = "summary.json"
_PACKAGES = ("torch", "numpy", "scikit-learn", "lightning-fabric", "safetensors")


class _Record:
    """What is written as JSON, and read again."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for :mod:`json`."""
        return dataclasses.asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read what `to_json` gave; what is nested are metrics."""
        return cls(
            **{name: Metrics(**value) if isinstance(value, dict) else value for name, value in dict(values).items()}
        )


@dataclass(frozen=True)
class Metrics(_Record):
    """Mean objective (cross entropy, nats) and errors in percent.

    Examples
    --------
    >>> Metrics.from_json({"objective": 0.5, "top1": 12.0, "top5": 1.0}).top1
    12.0
    """

    objective: float
    top1: float
    top5: float

    def telling(self, classes: int | None) -> dict[str, float]:
        """Figures by name, without a top-5 error where five classes or fewer make it zero; None is not known.

        >>> list(Metrics(0.5, 12.0, 0.0).telling(classes=3))
        ['objective', 'top1']
        """
        values: dict[str, float] = self.to_json()
        if classes is not None and classes <= 5:
            del values["top5"]
        return values


@dataclass(frozen=True)
class Epoch(_Record):
    """One line of ``metrics.jsonl``: `train` is the mean while training, `validation` is after the epoch."""

    epoch: int
    lr: float
    train: Metrics
    validation: Metrics | None
    samples_per_second: float
    seconds: float


@dataclass(frozen=True)
class Summary(_Record):
    """What a finished run amounts to; `train`, `validation` and `test` are measured with the final weights.

    `initial`, `order` and `final` are digests of the initial weights, but for those of the poolings, of the batch
    order and of the final state: equal digests, equal bits.
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
    classes: int | None = None  # runs before 0.2.0 did not say


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


@dataclass(frozen=True)
class Progress:
    """How far a run is: epochs done, the newest validation (else training) error, the test error at the end."""

    epochs: int = 0
    error: float | None = None
    test: float | None = None
    taken: float = 0.0  # when a process last took it up, seconds since 1970


def is_run(path: Path | str) -> bool:
    """Whether a folder holds a run, if a damaged one; other people's ``config.json`` does not count.

    Examples
    --------
    >>> is_run("no such folder")
    False
    """
    path = Path(path)
    try:
        head = _read_json(path / _CONFIG)
    except OSError:
        return False
    except ValueError:
        return any((path / name).exists() for name in (_METRICS, _SUMMARY, CHECKPOINT))
    return isinstance(head, dict) and {"format", "key", "config"} <= head.keys()


def read_run(path: Path | str) -> Run:
    """Read the folder of a run, finished or not.

    Examples
    --------
    >>> read_run("no such folder")
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: no such folder holds no run: there is no config.json in it
    """
    path = Path(path)
    again = f"delete {path} and train the run again"
    try:
        head = _read_json(path / _CONFIG)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} holds no run: there is no {_CONFIG} in it") from None
    except ValueError as error:
        raise InputError(f"{path / _CONFIG} is damaged ({error}): {again}") from None
    found = head.get("format") if isinstance(head, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} holds a run of format {found}, this version reads format {FORMAT}: "
            "train it again into another folder, or read it with the version that wrote it"
        )
    lines, last = path / _METRICS, path / _SUMMARY
    try:
        text = lines.read_text(encoding="utf-8") if lines.exists() else ""
        run = Run(
            path=path,
            config=RunConfig.from_json(_in_words_of_today(head["config"], head["versions"])),
            metrics=[Epoch.from_json(json.loads(line)) for line in text.splitlines()],
            summary=Summary.from_json(_read_json(last)) if last.exists() else None,
            versions=head["versions"],
            revision=head["revision"],
        )
    except InputError as error:
        raise InputError(f"the run in {path} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the run in {path} is damaged ({error!r}): {again}") from None
    if run.summary is not None and len(run.metrics) != run.summary.epochs:
        epochs = f"{len(run.metrics)} of {run.summary.epochs} epochs"
        raise InputError(f"the run in {path} is damaged ({_METRICS} holds {epochs}): {again}")
    return run


def _in_words_of_today(config: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Rename the pooling of an old run, when `multipartite` gathered nothing (0.1) or the maximum (0.2)."""
    rename = _RENAMED.get(versions.get("multipartite", "")[:4])
    if rename is None:
        return config
    words = (
        rename(**dict(w.options)) if w.name == "multipartite" else w for w in Places.parse(config["pooling"]).words
    )
    return {**config, "pooling": str(Places(tuple(words)))}


def _from_0_1(assignment: str = "hard", **options: Any) -> Word:
    if assignment == "hard":
        return Word.of("multipartite-printed", **options)
    return Word.of("multipartite", gather=None, assignment=assignment, **options)


def _from_0_2(gather: str | None = "max", **options: Any) -> Word:
    return Word.of("multipartite", **options) if gather == "blur" else Word.of("multipartite", gather=gather, **options)


_RENAMED = {"0.1.": _from_0_1, "0.2.": _from_0_2}


def find_run(config: RunConfig, out: Path, resume: bool) -> Run | None:
    """Give the run that `out` holds, None where a new one may go; another run or other files are refused."""
    if not (out / _CONFIG).exists():
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


def progress(path: Path) -> Progress:
    """Read how far the run in a folder is, without reading all of it; where there is none, it has not begun.

    Examples
    --------
    >>> progress(Path("no such folder"))
    Progress(epochs=0, error=None, test=None, taken=0.0)
    """
    with suppress(FileNotFoundError):
        summary = Summary.from_json(_read_json(path / _SUMMARY))
        return Progress(summary.epochs, test=summary.test.top1)
    taken, lines = 0.0, []
    with suppress(FileNotFoundError):
        taken = lock_file(path).stat().st_mtime
    with suppress(FileNotFoundError):
        lines = (path / _METRICS).read_bytes().splitlines()
    if not lines:
        return Progress(taken=taken)
    last = Epoch.from_json(json.loads(lines[-1]))
    return Progress(len(lines), (last.validation or last.train).top1, taken=taken)


def lock_file(path: Path) -> Path:
    """Give the file that is locked while a process works on the run in a folder; it lies beside the folder.

    Examples
    --------
    >>> lock_file(Path("runs/first")).name
    '.first.lock'
    """
    path = path.absolute()
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Work on the run in a folder alone; whoever else does is waited for, or else this is refused.

    The system gives the lock back when a process dies, however it dies.

    Examples
    --------
    >>> import tempfile
    >>> with locked(Path(tempfile.mkdtemp()) / "run"):
    ...     pass
    """
    from filelock import FileLock, Timeout

    file = lock_file(path)
    lock = FileLock(file, timeout=-1 if wait else 0)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=0.2)
    except Timeout:
        raise InputError(f"another process trains in {path}: wait until it ends, or choose another folder") from None
    except OSError as error:
        raise _no_folder(path, error) from error
    try:
        os.utime(file)  # the overview reads from it that the run was taken up
        yield
        if (path / _SUMMARY).exists():
            file.unlink(missing_ok=True)  # whoever still waits for it will find the run finished
    finally:
        lock.release()


def check_writable(folder: Path) -> None:
    """Refuse a folder that nothing can be written into; it is made where it is missing.

    Examples
    --------
    >>> check_writable(Path("/dev/null/here"))
    Traceback (most recent call last):
        ...
    multipartite.errors.InputError: cannot write into /dev/null/here (Not a directory): choose another folder
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"cannot write into {folder} ({error.strerror}): choose another folder") from error


def write_head(config: RunConfig, out: Path) -> None:
    """Make the folder of a new run, with what it is and what it is made with."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(out, error) from error
    head = {"format": FORMAT, "key": config.key, "config": config.to_json()}
    write_json(out / _CONFIG, {**head, "versions": versions(), "revision": _revision()})


def _no_folder(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot make the folder {path} ({error.strerror or error}): choose another")


def write_metrics(out: Path, history: list[Epoch]) -> None:
    """Write all epochs so far, whole or not at all."""
    lines = [json.dumps(epoch.to_json(), allow_nan=False) + "\n" for epoch in history]
    write_atomically(out / _METRICS, "".join(lines).encode())


def write_summary(out: Path, summary: Summary) -> None:
    """Write what makes a run a finished one."""
    write_json(out / _SUMMARY, summary.to_json())


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON, whole or not at all; NaN is refused, for no other reader knows it."""
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write `content` to `path` so that a crash at any moment leaves the old file or the new one.

    Parameters
    ----------
    path : Path
        Where the content goes; its folder exists.
    content : bytes
        What the file holds afterwards.
    keep : Path, optional
        Where the file that was there before goes.

    Raises
    ------
    OSError
        The disk is full, say; what was there before is untouched and the message says what to do.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", b"one")
    >>> write_atomically(folder / "a.txt", b"two", keep=folder / "b.txt")
    >>> (folder / "a.txt").read_bytes(), (folder / "b.txt").read_bytes()
    (b'two', b'one')
    """
    beside = path.with_name(f".{path.name}.part")  # one name, so that a crash leaves one file at most
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            path.replace(keep)
        beside.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        reason = error.strerror or type(error).__name__
        message = f"cannot write {path} ({reason}); what was there before is untouched"
        raise OSError(error.errno, message) from error


def leftovers(folder: Path) -> list[Path]:
    """Files that a process left half written when it was killed.

    Examples
    --------
    >>> leftovers(Path("no such folder"))
    []
    """
    return list(folder.glob(".*.part"))


def versions() -> dict[str, str]:
    """Versions of what takes part in a run.

    Examples
    --------
    >>> sorted(versions())[:2]
    ['lightning-fabric', 'multipartite']
    """
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "multipartite": __version__,  # of the code that runs; what is installed may be called otherwise
    }
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _revision() -> str | None:
    """Git revision of the package, with ``+`` where its files were changed; None outside a repository."""
    here = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # the repository is ours, not one that happens to hold us
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parents[2]))
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _flush_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
