import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from multipartite.errors import InputError
from multipartite.experiments.grid import jobs
from multipartite.experiments.grid.comparison import Grid
from multipartite.experiments.grid.jobs import Job, cores, run_jobs, work, workers_for, workers_starting
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import lock_file, locked, read_run

CONFIG = RunConfig("digits", epochs=3, limit=200, threads=1)


def test_a_paused_run_goes_on_to_the_same_bits_and_has_not_read_the_test_set(tmp_path):
    whole = work(Job(CONFIG, tmp_path / "whole" / "seed-0")).summary
    job = Job(CONFIG, tmp_path / "paused" / "seed-0", pause=1)
    assert work(job).summary is None
    assert len(read_run(job.folder).metrics) == 1
    assert read_run(job.folder).summary is None
    assert work(job).summary is None  # it has that epoch already
    assert len(read_run(job.folder).metrics) == 1
    rest = work(dataclasses.replace(job, pause=None)).summary
    assert rest.final == whole.final


def test_a_job_whose_time_is_up_leaves_nothing(tmp_path):
    outcome = work(Job(CONFIG, tmp_path / "late" / "seed-0", until=time.time() - 1))
    assert outcome.summary is None
    assert outcome.failure is None
    assert list(tmp_path.iterdir()) == []


def test_time_is_looked_at_within_an_epoch(tmp_path):
    job = Job(dataclasses.replace(CONFIG, epochs=10_000), tmp_path / "long" / "seed-0", until=time.time() + 1)
    began = time.monotonic()
    assert work(job).failure is None
    assert time.monotonic() - began < 30


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path):
    job = Job(CONFIG, tmp_path / "max" / "seed-0")
    job.folder.mkdir(parents=True)
    (job.folder / ".config.json.4711.part").write_bytes(b"{")
    assert work(job).summary is not None
    assert not list(job.folder.glob(".*"))
    assert not lock_file(job.folder).exists()


def test_a_run_that_fails_says_why(tmp_path, monkeypatch):
    outcome = work(Job(dataclasses.replace(CONFIG, batch_size=1000), tmp_path / "max" / "seed-0"))
    assert "choose a smaller batch" in outcome.failure
    foreign = tmp_path / "average" / "seed-0"
    foreign.mkdir(parents=True)
    (foreign / "thesis.txt").write_text("keep me")
    assert "is no run" in work(Job(CONFIG, foreign)).failure
    assert (foreign / "thesis.txt").exists()
    monkeypatch.setattr("multipartite.experiments.run.training.train_run", lambda *given, **more: 1 // 0)
    assert work(Job(CONFIG, tmp_path / "max" / "seed-1")).failure.startswith("ZeroDivisionError")


def test_who_waited_for_a_run_that_another_finished_finds_it_finished(tmp_path):
    job = Job(CONFIG, tmp_path / "max" / "seed-0")
    summary = work(job).summary
    outcomes = []
    shutil.copytree(job.folder, tmp_path / "finished")
    (job.folder / "summary.json").unlink()
    with locked(job.folder):  # as the process that works on it would
        waiting = threading.Thread(target=lambda: outcomes.append(work(job)))
        waiting.start()
        time.sleep(1)
        assert not outcomes
        shutil.copy(tmp_path / "finished" / "summary.json", job.folder)
    waiting.join(30)
    assert [(outcome.failure, outcome.summary) for outcome in outcomes] == [(None, summary)]
    assert not lock_file(job.folder).exists()


def test_a_run_is_worked_on_by_one_process_at_a_time(tmp_path):
    job = Job(CONFIG, tmp_path / "max" / "seed-0", pause=1)
    outcomes = []
    with locked(job.folder):
        thread = threading.Thread(target=lambda: outcomes.append(work(job)))
        thread.start()
        thread.join(3)
        assert thread.is_alive()
        assert not job.folder.exists()
    thread.join(60)
    assert read_run(job.folder).metrics


def test_a_run_that_another_process_took_as_far_meanwhile_rests_at_once(tmp_path):
    job = Job(CONFIG, tmp_path / "max" / "seed-0", pause=1)
    assert work(job).failure is None
    with locked(job.folder):
        outcomes = []
        (job.folder / "metrics.jsonl").rename(tmp_path / "aside")  # it looks as if nothing were done yet
        thread = threading.Thread(target=lambda: outcomes.append(work(job)))
        thread.start()
        time.sleep(1)
        (tmp_path / "aside").rename(job.folder / "metrics.jsonl")
    thread.join(60)
    assert len(read_run(job.folder).metrics) == 1


def test_cores_are_filled_and_not_fought_over():
    def jobs(threads, count=100):
        return [Job(RunConfig("digits", threads=threads), Path("x/y"))] * count

    assert workers_for(jobs(1)) == cores()
    assert workers_for(jobs(cores())) == 1
    assert workers_for(jobs(None)) == 1
    assert workers_for(jobs(1, count=1)) == 1
    assert workers_for(jobs(1), wanted=3) == 3
    assert workers_for([], wanted=3) == 1
    with pytest.raises(InputError, match="jobs must be at least 1, got 0"):
        workers_for(jobs(1), wanted=0)


def test_one_worker_is_this_process_and_takes_the_jobs_in_order(tmp_path):
    jobs = Grid(dataclasses.replace(CONFIG, epochs=2), ("max", "average"), 1).jobs(tmp_path)
    outcomes = list(run_jobs(jobs, 1))
    assert [outcome.job for outcome in outcomes] == jobs
    assert all(outcome.summary for outcome in outcomes)


def test_workers_that_stand_from_before_follow_to_the_folder_where_the_parent_is_now(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        jobs = Grid(dataclasses.replace(CONFIG, epochs=1), ("max", "average"), 1).jobs(Path("grid"))
        assert all(outcome.summary for outcome in run_jobs(jobs, 2))
        assert all((tmp_path / name / job.folder / "summary.json").exists() for job in jobs)


def _has_what_training_needs():
    return {"lightning_fabric", "multipartite.experiments.run.training"} <= set(sys.modules), os.getpid()


def test_workers_are_ready_when_the_body_ends():
    with workers_starting(2):
        pass
    seen = [jobs._pool(2).submit(_has_what_training_needs).result(60) for _ in range(8)]
    assert all(imported for imported, _ in seen)
    assert os.getpid() not in {process for _, process in seen}


def test_a_body_that_fails_does_not_wait_for_workers_and_leaves_them_for_later():
    with pytest.raises(InputError, match="no data"), workers_starting(2):
        raise InputError("no data")
    assert jobs._pool(2).submit(os.getpid).result(60) != os.getpid()


@pytest.mark.parametrize("count", [1, 2])
def test_what_comes_next_may_depend_on_the_outcomes_so_far(tmp_path, count):
    """A second job is given only after the first has ended; None in between ends nothing that is at hand."""
    first, second = Grid(dataclasses.replace(CONFIG, epochs=1), ("max", "average"), 1).jobs(tmp_path)
    ended = []

    def jobs():
        yield first
        while not ended:
            assert count == 2
            yield None
        yield second

    for outcome in run_jobs(jobs(), count):
        ended.append(outcome.job)  # noqa: PERF401  one by one: the jobs look at it
    assert ended == [first, second]


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_ends_with_the_same_bits(tmp_path):
    psutil = pytest.importorskip("psutil")
    config = RunConfig("digits", epochs=12, threads=1)
    expected = {
        s: work(Job(RunConfig("digits", epochs=12, threads=1, seed=s), tmp_path / "a" / f"{s}")).summary.final
        for s in (0, 1)
    }
    jobs = Grid(config, ("max",), 2).jobs(tmp_path / "b")

    def kill_one():
        first = jobs[0].folder / "metrics.jsonl"
        while not first.exists():
            time.sleep(0.05)
        running = [
            p
            for p in psutil.Process().children()
            if "loky" in " ".join(p.cmdline()) and "tracker" not in " ".join(p.cmdline())
        ]
        running[0].kill()

    killer = threading.Thread(target=kill_one)
    killer.start()
    with pytest.warns(UserWarning, match="a worker was killed"):
        outcomes = list(run_jobs(jobs, 2))
    killer.join()
    assert {outcome.job.config.seed: outcome.summary.final for outcome in outcomes} == expected


PARENT = """
import sys
from pathlib import Path
from multipartite.experiments.grid.comparison import Grid
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.grid.jobs import run_jobs
if __name__ == "__main__":
    list(run_jobs(Grid(RunConfig("digits", epochs=5000, threads=1), ("max",), 2).jobs(Path(sys.argv[1])), 2))
"""


@pytest.mark.slow
def test_workers_do_not_outlive_a_killed_comparison(tmp_path):
    psutil = pytest.importorskip("psutil")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("runs/max/*/metrics.jsonl"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        children = psutil.Process(parent.pid).children(recursive=True)
        assert len(children) >= 2
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
    finally:
        if parent.poll() is None:
            parent.kill()
    assert all(not read_run(folder).finished for folder in tmp_path.glob("runs/max/seed-*"))


@pytest.mark.parametrize("ended", [True, False])
def test_workers_that_nobody_waits_for_any_more_do_not_complain(ended, monkeypatch):
    class Main:
        def is_alive(self):
            return not ended

    def refuse(workers):
        raise RuntimeError("can't register atexit after shutdown")

    monkeypatch.setattr(jobs, "_pool", refuse)
    monkeypatch.setattr(jobs.threading, "main_thread", Main)
    if ended:
        jobs._start(2)
    else:
        with pytest.raises(RuntimeError, match="after shutdown"):
            jobs._start(2)


_HELD = []


def _grow(seconds):
    _HELD.append(b"1" * 200_000_000)
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.slow
def test_a_worker_that_grew_is_replaced_without_a_word():
    pytest.importorskip("psutil")  # without it nobody looks at how much memory a worker has
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pool = jobs._pool(2)
        processes = {future.result(60) for future in [pool.submit(_grow, 1.1) for _ in range(8)]}
    assert len(processes) > 2
    assert seen == []
