"""From a configuration to a finished run: processes, folder, data, then the loop."""

from __future__ import annotations

from pathlib import Path

import torch

from multipartite.experiments.run.assembly import assemble, prepare
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.processes import on_first, start
from multipartite.experiments.run.progress import Watcher
from multipartite.experiments.run.runs import Summary, find_run, write_head
from multipartite.experiments.run.training import train

__all__ = ["launch"]


def launch(config: RunConfig, out: Path, watcher: Watcher | None, resume: bool) -> Summary:
    """Start the processes, open the run's folder, train; :func:`~multipartite.experiments.run.runs.train_run`."""
    fabric = start(config)
    fabric.launch()
    threads = torch.get_num_threads()
    watcher = watcher if watcher is not None and fabric.is_global_zero else Watcher()
    try:
        torch.set_num_threads(config.threads or threads)
        run = on_first(fabric, lambda: find_run(config, out, resume))
        if run is not None and run.summary is not None:
            return run.summary
        with fabric.rank_zero_first():  # which may download
            data = prepare(config)
        net = assemble(config, data)
        if run is None:  # now that nothing in the configuration can be wrong
            on_first(fabric, lambda: write_head(config, out))
        with torch.random.fork_rng(devices=[]):  # the loop seeds torch, which is the caller's own
            summary = train(config, data, net, out, fabric, watcher)
        watcher.finish(summary)
        return summary
    finally:
        watcher.close()
        torch.set_num_threads(threads)
