"""What the documentation says is so: names exist, snippets run, pictures come from the code."""

import ast
import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs" / "equations.md").read_text()
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(multipartite\.[\w.]+)`", EQUATIONS))))
def test_functions_named_in_the_equations_exist(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", EQUATIONS))))
def test_tests_named_in_the_equations_exist(name):
    file, _, test = name.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("number", range(1, 11))
def test_every_equation_of_the_paper_has_a_row(number):
    rows = [line.split("|")[1] for line in EQUATIONS.splitlines() if line.startswith("| Eq.")]
    assert any(str(number) in re.findall(r"\d+", row) for row in rows)


@pytest.mark.parametrize("what", ["Alg. 1", "Alg. 2", "Alg. 3", "Fig. 1, 2", "Fig. 3", "Fig. 4 to 7", "Tables 1 to 3"])
def test_everything_else_of_the_paper_has_a_row(what):
    assert re.search(rf"^\| {re.escape(what)} \|.*`(tests/|multipartite)", EQUATIONS, flags=re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_of_the_readme_run(snippet):
    exec(compile(snippet, "README.md", "exec"), {})


def test_readme_has_the_commands_on_its_first_screen():
    first = "\n".join(README.splitlines()[:24])
    assert "make demo" in first
    assert "make test" in first
    assert "pip install" in first
    assert len(README.splitlines()) < 120


@pytest.mark.parametrize("page", ["README.md", "docs/equations.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page):
    file = ROOT / page
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", file.read_text()):
        assert (file.parent / link).exists(), link


@pytest.mark.slow
def test_figures_are_drawn_from_the_data(tmp_path):
    drawn = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    drawn["main"].__globals__["FOLDER"] = tmp_path
    drawn["main"]()
    drawn_now = sorted(path.name for path in tmp_path.glob("*.png"))
    assert drawn_now == ["feature-and-instance-ranking.png", "multipartite-ranking.png"]
    for name in drawn_now:
        kept, fresh = ROOT / "docs" / "figures" / name, matplotlib.image.imread(tmp_path / name)
        assert np.abs(fresh - matplotlib.image.imread(kept)).mean() < 0.02, f"run make figures: {kept.name}"


def test_example_says_what_it_found_and_draws_it(tmp_path):
    line = [sys.executable, "-W", "error", str(ROOT / "examples" / "digits.py"), str(tmp_path)]
    lines = subprocess.run(line, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 3
    raw, projected = (float(share) for share in re.findall(r"([\d.]+)%", lines[1]))
    assert projected > raw > 50
    assert matplotlib.image.imread(tmp_path / "digits.png").std() > 0.1
