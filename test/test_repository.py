"""Statements about the repository agree between its files."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import yaml
from start_order import ONE_AT_A_TIME, SECONDS, start_order

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rbd_control"
MOST_PARAMETERS, MOST_LINES = 8, 60

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_workflows_pin_actions_and_write_nothing() -> None:
    """A tag may be moved to other code; a commit may not."""
    assert WORKFLOWS
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for job in workflow["jobs"].values():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert used, path.name
            for action in used:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action


def imports(modules: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that each of ``modules`` (name, source) imports, at whatever place.

    Imports within functions count, those for type checkers do not. The import of a submodule does
    not count as one of the packages it is in, though Python runs their ``__init__`` first.
    """
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        used: set[str] = set()
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} has a relative import"
                assert node.module is not None
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    used.add(whole if whole in modules else node.module)
        graph[name] = (used & modules.keys()) - {name}
    return graph


def test_no_import_circle() -> None:
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = path.read_text(encoding="utf-8")
    graph = imports(modules)
    # Not empty by mistake: the model is built on its arrays, and nodes on everything.
    assert "rbd_control.dynamics.model_arrays" in graph["rbd_control.dynamics.model"]
    assert len(graph) == len(modules) > 100
    TopologicalSorter(graph).prepare()


def test_long_test_files_start_first() -> None:
    """The table names files that exist; of each kind, the longest start first, beside the other."""
    files = [path.relative_to(ROOT / "test").as_posix() for path in ROOT.glob("test/**/test_*.py")]
    assert set(files) >= ONE_AT_A_TIME | set(SECONDS)
    order = start_order(files)
    assert sorted(order) == sorted(files)
    for waits in (True, False):
        kind = [file for file in order if file.startswith("system/") == waits]
        long = [SECONDS[file] for file in kind if file in SECONDS]
        assert [file in SECONDS for file in kind] == sorted([f in SECONDS for f in kind])[::-1]
        assert long == sorted(long)[::-1]
        assert any(file in order[:4] for file in kind)
        assert any(file in order[-10:] for file in kind)
