"""From a configuration to a finished run: processes, folder, data, then the loop."""

from __future__ import annotations

from pathlib import Path

import torch

from multipartite.errors import InputError
from multipartite.experiments.config import RunConfig
from multipartite.experiments.data import Dataset, load
from multipartite.experiments.machine import revision, versions
from multipartite.experiments.processes import on_first, start
from multipartite.experiments.progress import Watcher
from multipartite.experiments.runs import Run, Summary, open_run
from multipartite.experiments.training import train

__all__ = ["launch", "prepare"]


def launch(config: RunConfig, out: Path, watcher: Watcher | None, resume: bool) -> Summary:
    """Start the processes, open the run's folder, train; :func:`~multipartite.experiments.runs.train_run`."""
    fabric = start(config)
    fabric.launch()
    threads = torch.get_num_threads()
    watcher = watcher if watcher is not None and fabric.is_global_zero else Watcher()
    try:
        torch.set_num_threads(config.threads or threads)
        head = {"versions": versions(), "revision": revision()}
        run: Run = on_first(fabric, lambda: open_run(config, out, resume, head))
        if run.summary is not None:
            return run.summary
        with fabric.rank_zero_first(), torch.random.fork_rng(devices=[]):
            data = prepare(config)
        with torch.random.fork_rng(devices=[]):
            summary = train(config, data, out, fabric, watcher)
        watcher.finish(summary)
        return summary
    finally:
        watcher.close()
        torch.set_num_threads(threads)


def prepare(config: RunConfig) -> Dataset:
    """Load the data of a run: limited, and with its validation part split off."""
    data = load(config.dataset, config.data_dir)
    if config.limit is not None:
        data = data.limit(config.limit, config.seed)
    if config.validation:
        data = data.with_validation(config.validation, config.seed)
    if config.batch_size > len(data.train_labels):
        raise InputError(
            f"batch_size={config.batch_size} is more than the {len(data.train_labels)} training images of "
            f"{data.name}: choose a smaller batch"
        )
    return data
