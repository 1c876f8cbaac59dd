"""docs/extend.md does what it says: its modules are written to a folder, its snippets and commands run there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "extend.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
FENCE = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS)
def test_what_a_section_shows_runs(section, tmp_path):
    blocks = FENCE.findall(SECTIONS[section])
    assert blocks
    for kind, block in blocks:
        name = re.match(r"# (\w+\.py)\n", block)
        if kind == "python" and name:
            (tmp_path / name[1]).write_text(block)
            lines = [[sys.executable, name[1]]]
        elif kind == "python":
            lines = [[sys.executable, "-W", "error", "-c", block]]
        else:
            commands = re.findall(r"^\$ multipartite (.+)$", block, flags=re.MULTILINE)
            assert len(commands) == len(block.splitlines())
            script = str(Path(sys.executable).with_name("multipartite"))  # which does not look where it is called
            lines = [[script, *shlex.split(command, comments=True)] for command in commands]
        for line in lines:
            done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
