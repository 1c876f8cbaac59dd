"""docs/extend.md does what it says: its modules are written to a folder, its snippets run there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "extend.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("section", SECTIONS)
def test_what_a_section_shows_runs(section, tmp_path):
    blocks = FENCE.findall(SECTIONS[section])
    assert blocks
    for block in blocks:
        if name := re.match(r"# (\w+\.py)\n", block):
            (tmp_path / name[1]).write_text(block)
            line = [sys.executable, name[1]]
        else:
            line = [sys.executable, "-W", "error", "-c", block]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
