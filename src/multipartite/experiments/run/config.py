"""What a run is: every choice that makes it, in one frozen record with a stable key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from multipartite.errors import InputError, unknown
from multipartite.experiments.data.catalogue import check_name
from multipartite.experiments.run import networks
from multipartite.pooling import registry
from multipartite.words import Places, Word

__all__ = ["FORMAT", "PRECISIONS", "RunConfig"]

FORMAT = 1  # of the run folder and its files
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "bf16-true", "64-true")
_MACHINE = frozenset(["accelerator", "devices", "num_nodes", "threads", "data_dir", "download"])  # where, not what
# What older runs did not choose: at these values the key is theirs.
_LATER = {"augment": False, "label_smoothing": 0.0, "mixup": 0.0, "skip_unreadable": False}


@dataclass(frozen=True)
class RunConfig:
    """One network, one data set, one pooling, one seed.

    Parameters
    ----------
    dataset : str
        Name of a data set, a folder of images with one sub-folder a class, or ``package.module:attribute``.
    network : str
        Name of a network, ``auto``, or ``package.module:function``, with ``:option=value,...`` where wanted.
    pooling : str
        A pooling of the registry, ``name[:option=value,...]``, in every pooling place; or one a place, ``word|word``.
    epochs, batch_size : int
        A last batch that would not be full is left out; the order is new in every epoch.
    seed : int
        Of the initial weights, the batch order, the validation split and whatever a pooling draws.
    limit : int, optional
        Train on this many images, drawn with the seed, every class in proportion.
    validation : float
        Share of the training images kept for validation; 0 for none.
    augment : bool
        Whether training images are shifted at random, and mirrored where the data set says that it does no harm.
    label_smoothing : float
        Share of each label that is spread over all classes while training.
    mixup : float
        Parameter of the Beta distribution that training images are mixed by, in pairs, with their labels; 0 for none.
    lr, momentum, weight_decay, schedule : optional
        Of SGD; None is the recipe of the network.
    precision : str
        As in Lightning Fabric.
    channels_last : bool
        Memory layout of activations.
    skip_unreadable : bool
        Whether images of a folder that cannot be read are left out; else they are an error.
    accelerator, devices, num_nodes, threads, data_dir, download
        Where it runs and where its data are; no part of the run's identity.

    Examples
    --------
    >>> config = RunConfig("digits", pooling="average", seed=3)
    >>> RunConfig.from_json(config.to_json()) == config
    True
    >>> config.key == dataclasses.replace(config, threads=1).key
    True
    """

    dataset: str = "digits"
    network: str = "auto"
    pooling: str = "max"
    epochs: int = 20
    seed: int = 0
    limit: int | None = None
    batch_size: int = 100
    validation: float = 0.1
    augment: bool = False
    label_smoothing: float = 0.0
    mixup: float = 0.0
    lr: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    schedule: str | None = None
    precision: str = "32-true"
    channels_last: bool = True
    skip_unreadable: bool = False
    accelerator: str = "auto"
    devices: int = 1
    num_nodes: int = 1
    threads: int | None = None
    data_dir: str | None = None
    download: bool = True

    def __post_init__(self) -> None:
        self._check_values()
        words = Places.parse(self.pooling).words
        check_name(self.dataset)  # names first: what is mistyped is said before torch is imported
        networks.find(Word.parse(self.network).name)
        for word in words:
            registry.find(word.name)
        networks.resolve(self.network)
        for word in words:
            registry.create(word, 2, num_classes=2)

    def _check_values(self) -> None:
        for name in ("epochs", "batch_size", "devices", "num_nodes", "limit", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        if not 0 <= self.seed < 2**63:
            raise InputError(f"seed must be a whole number from 0 to 2**63 - 1, got {self.seed}")
        if not 0 <= self.validation < 1:
            raise InputError(f"validation must be a share from 0 to below 1, got {self.validation}")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"label_smoothing must be a share from 0 to below 1, got {self.label_smoothing}")
        if not 0 <= self.mixup < float("inf"):
            raise InputError(f"mixup must be at least 0, got {self.mixup}; 0.2 is usual")
        if self.lr is not None and not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be above 0, got {self.lr}")
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise InputError(f"momentum must lie in [0, 1), got {self.momentum}")
        if self.weight_decay is not None and not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight_decay must be at least 0, got {self.weight_decay}")
        if self.schedule is not None and self.schedule not in networks.SCHEDULES:
            raise unknown("schedule", self.schedule, networks.SCHEDULES)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        if self.batch_size % (self.devices * self.num_nodes):
            raise InputError(
                f"batch_size={self.batch_size} must divide evenly among "
                f"{self.devices * self.num_nodes} devices: choose a multiple"
            )

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name the run: equal for equal choices, wherever it runs."""
        choices = dataclasses.asdict(self).items()
        identity = {k: v for k, v in choices if k not in _MACHINE and (k, v) not in _LATER.items()}
        words = [[word.name, [(k, repr(v)) for k, v in word.options]] for word in Places.parse(self.pooling).words]
        identity |= {"pooling": words[0] if len(words) == 1 else words, "format": FORMAT}
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for :mod:`json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> RunConfig:
        """Read what `to_json` gave; an unknown entry is an error.

        A pooling or network that is somebody's own need not be at hand: numbers can be read without it.
        """
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown("entry of a run's configuration:", name, known)
        config = object.__new__(cls)
        for name, default in known.items():
            object.__setattr__(config, name, values.get(name, default))
        config._check_values()
        return config

    def recipe(self, channels: int, size: tuple[int, int]) -> networks.Recipe:
        """Settle what SGD is given: the network's recipe, but for what is set here."""
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(networks.Recipe)}
        default = networks.find(Word.parse(self.network).name, channels, size).recipe
        return dataclasses.replace(default, **{k: v for k, v in given.items() if v is not None})
