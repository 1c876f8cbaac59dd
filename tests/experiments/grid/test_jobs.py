import dataclasses
import shutil
import threading
import time

from multipartite.experiments.grid.jobs import Job, work
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
