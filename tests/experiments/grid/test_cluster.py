import re
import signal
import socket
import subprocess
import sys
import time

import pytest

from multipartite.errors import InputError

pytest.importorskip("distributed")
MULTIPARTITE = [sys.executable, "-c", "from multipartite.cli import main; main()"]
SMALL = ["digits", "--poolings", "max,average", "--seeds", "2"]


def run(*words, timeout=240):
    return subprocess.run([*MULTIPARTITE, *map(str, words)], capture_output=True, text=True, timeout=timeout)


@pytest.fixture
def silent():
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed():
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the event loop that is left waiting
@pytest.mark.parametrize("kind", ["silent", "closed", "no address"])
def test_a_cluster_that_does_not_answer_is_one_sentence_within_ten_seconds(kind, request):
    from multipartite.experiments.grid.cluster import connect

    address = kind if kind == "no address" else request.getfixturevalue(kind)
    began = time.monotonic()
    with pytest.raises(InputError, match=re.escape(f"cluster {address!r} cannot be used")):
        connect(address)
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_the_command_says_it_in_a_sentence_and_exits_with_status_2(closed, tmp_path):
    ended = run("compare", *SMALL, "--out", tmp_path / "grid", "--cluster", closed)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"multipartite: cluster {closed!r} cannot be used")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "grid").exists()


def test_connecting_does_not_wait_for_torch():
    code = (
        "import sys, multipartite.experiments.grid.cluster, multipartite.cli.compare; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers as processes of their own; gives the address and the workers."""
    dask = [sys.executable, "-m", "dask"]
    port = socket.create_server(("127.0.0.1", 0))
    number = port.getsockname()[1]
    port.close()
    address = f"tcp://127.0.0.1:{number}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [
        subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", str(number), "--no-dashboard"], **quiet)
    ]
    for name in ("a", "b"):
        words = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--name", name]
        started.append(subprocess.Popen([*dask, *words, "--local-directory", str(tmp_path / "dask")], **quiet))
    yield address, started[1:]
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_grid_on_a_cluster_survives_the_loss_of_a_worker_and_gives_the_numbers_of_one_machine(cluster, tmp_path):
    address, workers = cluster
    words = ["compare", "digits", "--poolings", "max,average", "--seeds", "2", "--epochs", "12"]
    deadline = time.monotonic() + 60
    while True:  # until the workers are there
        from multipartite.experiments.grid.cluster import connect

        try:
            client = connect(address)
        except InputError:
            assert time.monotonic() < deadline
            continue
        client.wait_for_workers(2, timeout=60)
        client.close()
        break
    out = tmp_path / "cluster"
    grid = subprocess.Popen(
        [*MULTIPARTITE, *words, "--out", out, "--cluster", address], stdout=subprocess.PIPE, text=True
    )
    try:
        while len(list(out.glob("runs/*/*/metrics.jsonl"))) < 2:
            assert grid.poll() is None
            assert time.monotonic() < deadline + 120
            time.sleep(0.05)
        workers[0].send_signal(signal.SIGKILL)
        said, _ = grid.communicate(timeout=240)
    finally:
        if grid.poll() is None:
            grid.kill()
            grid.communicate()
    assert grid.returncode == 0
    assert "Best:" in said
    assert run(*words, "--out", tmp_path / "here", "--jobs", "1").returncode == 0
    for name in ("errors.csv", "runs.csv", "curves.csv"):
        assert (out / "report" / name).read_text() == (tmp_path / "here" / "report" / name).read_text()
