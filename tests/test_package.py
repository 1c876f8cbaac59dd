"""The package as a whole: lazy public names, and imports that only go down."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import multipartite

ROOT = Path(multipartite.__file__).parent
FILES = {
    path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", "."): path for path in ROOT.rglob("*.py")
}
MODULES = {name.removesuffix(".__init__"): path for name, path in FILES.items()}

# Data flows one way: every part may import from its own line and the lines above it
LAYERS = [
    ["errors", "words", "registry", "_tall", "_threads", "_validation"],
    ["labels"],
    ["statistics"],
    ["criteria"],
    ["projection"],
    ["ranking", "instance_ranking"],
    ["_supervised", "estimators"],
    ["pooling", "functional", "integrations"],
    ["experiments"],
    ["bench"],
    ["cli", "__main__"],
]
STEPS = ["data", "run", "grid", "report", "compare"]  # of the experiments, in the same sense
LAYER = {part: i for i, parts in enumerate(LAYERS) for part in parts}


def part(module):
    """The part of the package that a module belongs to: multipartite.pooling.window -> pooling."""
    return module.split(".")[1]


def nodes(tree):
    """Everything in a module's text but what only type checkers read."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from nodes(child)


def imports(module):
    """Modules and names of the package that a module imports anywhere in its text, with the line."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            if base == "multipartite":
                yield from ((f"multipartite.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield base, node.lineno


def home(target):
    """The module behind an import: a public name of the package stands for the module that it lives in."""
    name = target.split(".")[1]
    return f"multipartite.{multipartite._HOME.get(name, name)}"


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"multipartite"}))
def test_nothing_imports_upwards(module):
    assert part(module) in LAYER, f"say in LAYERS where {part(module)} belongs"
    for target, line in imports(module):
        if target == "multipartite" or target == "multipartite.__version__" or not target.startswith("multipartite."):
            continue
        lower = part(home(target))
        assert LAYER[lower] <= LAYER[part(module)], f"{MODULES[module]}:{line} imports {target} from above"


@pytest.mark.parametrize("module", sorted(m for m in MODULES if m.startswith("multipartite.experiments.")))
def test_the_steps_of_the_experiments_go_one_way(module):
    step = STEPS.index(module.split(".")[2])
    for target, line in imports(module):
        if target.startswith("multipartite.experiments."):
            lower = target.split(".")[2]
            assert STEPS.index(lower) <= step, f"{MODULES[module]}:{line} imports {target} from above"


def test_the_check_of_imports_sees_them():
    seen = {target for target, _ in imports("multipartite.instance_ranking")}
    assert {"multipartite.statistics", "multipartite.criteria", "torch"} <= seen
    assert LAYER[part(home("multipartite.ClassStatistics"))] == LAYER["statistics"]


def imported_modules(module):
    """Modules of the package that a module brings, inside functions too; a package is its ``__init__``."""
    found = set()
    for node in nodes(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno} imports by dots"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            homes = (multipartite._HOME.get(alias.name) for alias in node.names if node.module == "multipartite")
            found |= {name if name in MODULES else node.module for name in names}
            found |= {f"multipartite.{home}" for home in homes if home}
    return (found & MODULES.keys()) - {module, "multipartite"}


def cycles(graph):
    """Groups of nodes that reach one another."""
    reach = {node: set(targets) for node, targets in graph.items()}
    for through in reach:
        for targets in reach.values():
            if through in targets:
                targets |= reach[through]
    return {
        frozenset({node, *(other for other in reach[node] if node in reach[other])})
        for node in reach
        if node in reach[node]
    }


def test_nothing_imports_in_a_circle():
    graph = {module: imported_modules(module) for module in MODULES}
    assert not {tuple(sorted(group)) for group in cycles(graph)}


def test_the_check_of_circles_sees_them():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert not cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()})
    hidden = imported_modules("multipartite.experiments.grid.cluster")
    assert "multipartite.experiments.grid.jobs" in hidden  # inside a function
    assert "torch" not in hidden


def type_checking_names():
    """Names that the package shows to type checkers."""
    tree = ast.parse(Path(multipartite.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {
        (alias.asname or alias.name): node.module
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_type_checkers_see_the_public_names():
    names = type_checking_names()
    assert sorted(names) == sorted(multipartite.__all__)
    assert len(set(multipartite.__all__)) == len(multipartite.__all__)
    assert {name: f"multipartite.{multipartite._HOME[name]}" for name in names} == names


@pytest.mark.parametrize("name", multipartite.__all__)
def test_public_names_are_there_and_explained(name):
    value = getattr(multipartite, name)
    assert value is getattr(importlib.import_module(f"multipartite.{multipartite._HOME[name]}"), name)
    assert value.__doc__
    assert name in dir(multipartite)


@pytest.mark.parametrize("name", multipartite._MODULES)
def test_public_modules_are_there(name):
    assert getattr(multipartite, name) is importlib.import_module(f"multipartite.{multipartite._MODULES[name]}")
    assert name in dir(multipartite)


@pytest.mark.parametrize(
    "module", sorted(m for m in MODULES if len(m.split(".")) == 2 and MODULES[m].name != "__init__.py")
)
def test_modules_list_names_that_exist(module):
    if module == "multipartite.__main__":
        pytest.skip("runs the command line")
    loaded = importlib.import_module(module)
    assert all(hasattr(loaded, name) for name in getattr(loaded, "__all__", []))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'multipartite' has no attribute 'nothing'"):
        _ = multipartite.nothing
    assert not hasattr(multipartite, "__wrapped__")


def loaded_by(code):
    """Names of modules that are loaded after `code` has run in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"torch", "numpy", "sklearn", "scipy", "pandas", "matplotlib"}


@pytest.mark.parametrize(
    "code",
    [
        "import multipartite",
        "import multipartite; multipartite.__version__; dir(multipartite)",
        "import multipartite.cli",
    ],
)
def test_importing_does_not_import_torch(code):
    assert not HEAVY & loaded_by(code)


def test_using_a_name_does():
    assert "torch" in loaded_by("import multipartite; multipartite.ClassStatistics")


def test_statistics_do_not_import_the_rest():
    loaded = loaded_by("import multipartite.statistics")
    assert not {f"multipartite.{name}" for name in ("projection", "ranking", "pooling", "experiments", "cli")} & loaded


def test_no_two_test_files_share_a_name():
    """Pytest would collect the first of them alone."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert len(names) == len(set(names))
