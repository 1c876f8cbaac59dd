"""What the package says it needs is what it imports, no more and no less, part by part."""

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# parts of the package that `pip install 'multipartite[experiments]'` is for; the rest is the core
EXPERIMENTS = ("experiments", "bench", "cli")
# declared for what another package imports when it is asked: the words in our source that ask
ASKED = {"tensorboard": "torch.utils.tensorboard", "pyarrow": "pd.read_parquet"}


def names(requirements):
    return {canonicalize_name(Requirement(text).name) for text in requirements}


CORE = names(PROJECT["dependencies"])
EXTRA = names(PROJECT["optional-dependencies"]["experiments"])
DISTRIBUTIONS = packages_distributions()


def guarded(tree):
    """Imports that are tried, and done without where they fail."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any("ModuleNotFoundError" in ast.unparse(h) for h in node.handlers):
            yield from (inner for statement in node.body for inner in ast.walk(statement))


def imported(path):
    """Packages of others that a file needs, inside functions too; strings given to import_module count."""
    tree = ast.parse(path.read_text())
    optional = set(map(id, guarded(tree)))
    for node in ast.walk(tree):
        if id(node) in optional:
            continue
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        else:
            continue
        for name in found:
            package = name.split(".")[0]
            if package not in sys.stdlib_module_names and package != "multipartite":
                homes = [canonicalize_name(home) for home in DISTRIBUTIONS[package]]  # some come in several
                yield next((home for home in homes if home in CORE | EXTRA), homes[0])


FILES = {path.relative_to(ROOT / "src" / "multipartite"): path for path in (ROOT / "src").rglob("*.py")}
NEEDED = {file: set(imported(path)) for file, path in FILES.items()}


@pytest.mark.parametrize("file", sorted(NEEDED), ids=str)
def test_what_is_imported_is_declared(file):
    declared = CORE | EXTRA if file.parts[0] in EXPERIMENTS else CORE
    assert NEEDED[file] <= declared


def test_what_is_declared_is_imported():
    used = set().union(*NEEDED.values())
    assert used - {"typer"} > CORE  # the check sees imports at all
    source = "\n".join(path.read_text() for path in FILES.values())
    asked = {name for name, words in ASKED.items() if words in source}
    assert (CORE | EXTRA) - used == asked == set(ASKED)


def test_nothing_is_declared_twice():
    assert not CORE & EXTRA


def test_what_is_declared_has_a_version_that_the_tests_passed_with():
    pinned = names((ROOT / "constraints.txt").read_text().splitlines()[1:])
    everything = set().union(CORE, *map(names, PROJECT["optional-dependencies"].values()))
    assert everything <= pinned
