import dataclasses
import threading
import time

import pytest

from multipartite.experiments.grid.jobs import Job, work
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import lock_file, read_run

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
    fcntl = pytest.importorskip("fcntl")
    job = Job(CONFIG, tmp_path / "max" / "seed-0")
    summary = work(job).summary
    outcomes = []
    with lock_file(job.folder).open("a") as held:  # as the process that works on it would
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=lambda: outcomes.append(work(job)))
        waiting.start()
        time.sleep(0.5)
        assert not outcomes
        lock_file(job.folder).unlink()
    waiting.join(30)
    assert [(outcome.failure, outcome.summary) for outcome in outcomes] == [(None, summary)]


def test_a_run_is_worked_on_by_one_process_at_a_time(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    trained = threading.Event()
    monkeypatch.setattr("multipartite.experiments.run.training.train_run", lambda *given, **more: trained.set())
    job = Job(CONFIG, tmp_path / "max" / "seed-0")
    job.folder.parent.mkdir(parents=True)
    with lock_file(job.folder).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        thread = threading.Thread(target=work, args=(job,))
        thread.start()
        assert not trained.wait(1)
    assert trained.wait(60)
    thread.join()
