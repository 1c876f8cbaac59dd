import json

import pytest

from command_line import run_example, shrink_bench
from multipartite.bench import layers
from multipartite.cli import bench as command
from multipartite.errors import InputError


@pytest.fixture
def tiny(monkeypatch):
    shrink_bench(monkeypatch)


def test_the_example_of_the_help(tiny):
    status, out, _ = run_example("bench")
    assert status == 0
    assert out.splitlines()[1].startswith("case\tlayout\tphase\tpooling")


def test_json(tiny, capsys):
    command.bench(quick=True, as_json=True)
    results = json.loads(capsys.readouterr().out)
    assert results["machine"]["threads"] >= 1
    assert {row["pooling"] for row in results["layers"]} == {"max", *layers.OURS}


def test_check_exits_with_one_where_something_got_slower(tiny, tmp_path, capsys):
    command.bench(quick=True, as_json=True)
    results = json.loads(capsys.readouterr().out)
    record = tmp_path / "record.json"
    for factor, slow in ((1000.0, False), (0.001, True)):
        for row in results["layers"]:
            row["ratio"] *= factor
        record.write_text(json.dumps(results))
        if slow:
            with pytest.raises(SystemExit) as stop:
                command.bench(quick=True, check=record)
            assert stop.value.code == 1
            assert "slower: " in capsys.readouterr().err
        else:
            command.bench(quick=True, check=record)
        for row in results["layers"]:
            row["ratio"] /= factor


def measured(**ratios):
    row = {"case": "a", "layout": "contiguous", "phase": "evaluation"}
    return {"layers": [{**row, "pooling": f"multipartite:{k}", "ratio": r} for k, r in ratios.items()], "networks": []}


def test_check_measures_again_and_tells_what_is_slower_every_time(capsys):
    runs = iter([measured(one=2.0, two=1.0), measured(one=2.0, two=2.0)])
    with pytest.raises(SystemExit):
        command._check(measured(one=2.0, two=2.0), measured(one=1.0, two=1.0), lambda: next(runs))
    said = capsys.readouterr().err
    assert "slower: a | contiguous | evaluation | multipartite:one: 2.00" in said
    assert "multipartite:two" not in said
    assert next(runs, None) is None


def test_check_passes_what_was_slower_once(capsys):
    command._check(measured(one=2.0), measured(one=1.0), lambda: measured(one=1.0))
    assert "nothing got slower" in capsys.readouterr().err


def test_a_record_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no record"):
        command.bench(check=tmp_path / "none.json")
