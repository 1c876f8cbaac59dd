import io

from rich.console import Console

from made_runs import made_run
from multipartite.experiments.grid.comparison import Grid
from multipartite.experiments.grid.jobs import Outcome
from multipartite.experiments.grid.overview import Overview, live
from multipartite.experiments.run.config import RunConfig
from multipartite.experiments.run.store import lock_file, progress, read_run

GRID = Grid(RunConfig("digits", epochs=3, threads=1), ("max", "average"), 2)


def shown(thing):
    console = Console(file=io.StringIO(), width=140, force_terminal=False)
    console.print(thing)
    return console.file.getvalue()


def test_the_overview_tells_what_is_done_what_runs_and_how_long(tmp_path):
    jobs = GRID.jobs(tmp_path)
    overview = Overview(jobs)
    assert "0/4" in shown(overview)
    assert "time left unknown yet" in shown(overview)
    made_run(tmp_path, "max", 0, 5.0)
    made_run(tmp_path, "max", 1, 7.0)
    folder = made_run(tmp_path, "average", 0, 6.0, finished=False)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:2]))
    lock_file(folder).touch()
    text = shown(overview)
    row = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "2/2" in row["max"]
    assert "6.00%" in row["max"]
    assert "seed 0: epoch 2/3, 16.00%" in row["average"]
    assert "2/4" in text
    assert "left" in text.splitlines()[-1]


def test_a_run_that_rests_since_an_earlier_start_is_not_called_running(tmp_path):
    made_run(tmp_path, "max", 0, 5.0, finished=False)
    job = GRID.jobs(tmp_path)[0]
    assert progress(job.folder).epochs == 3
    assert "seed 0" not in shown(Overview([job]))


def test_where_there_is_no_terminal_every_run_that_ended_is_a_line(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=False)
    jobs = GRID.jobs(tmp_path)
    with live(jobs, console) as tell:
        assert console.file.getvalue() == ""
        tell(Outcome(jobs[2], read_run(made_run(tmp_path, "max", 1, 7.0)).summary))
        assert console.file.getvalue() == "1/4 max/seed-1: test error 7.00%\n"
        tell(Outcome(jobs[1], failure="no space left"))
    assert console.file.getvalue().splitlines()[1:] == ["2/4 average/seed-0: no space left"]
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with live(GRID.jobs(tmp_path), console):
        pass
    assert "average" in console.file.getvalue()
