"""Statements about the repository agree between its files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from start_order import ONE_AT_A_TIME, SECONDS, start_order

import rbd_control

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rbd_control"
MOST_PARAMETERS, MOST_LINES = 8, 60
COMPILED = {"compiled", "inlined", "compiled_borrowing", "inlined_borrowing", "njit"}
"""Decorators of kernels, which may be long and take many arrays: a call between them costs time."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_citation_names_this_version() -> None:
    citation = load("CITATION.cff")
    assert citation["version"] == rbd_control.__version__
    changelog = (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8")
    assert f"{rbd_control.__version__} ({citation['date-released']})" in changelog


def test_python_versions_are_the_tested_ones() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    declared = re.findall(r"Programming Language :: Python :: (3\.\d+)", setup)
    matrix = load(".github/workflows/python.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == declared
    assert f'python_requires=">={declared[0]}"' in setup


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


def functions(source: str) -> Iterator[Function]:
    """Yield all functions without a compiling decorator, except those within kernels."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            used = {ast.unparse(each).split("(")[0] for each in node.decorator_list}
            if used & COMPILED:
                continue
            yield node
        waiting += ast.iter_child_nodes(node)


def parameters(function: Function) -> int:
    """Return the number of parameters, without ``self``, ``*args`` and ``**kwargs``."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def lines(function: Function) -> int:
    """Return the number of lines of code, without decorators and docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    length = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        length -= first.end_lineno - first.lineno + 1
    return length


def too_large(source: str) -> list[str]:
    """Return the names of functions that are too large without a reason written beside them.

    The reason for many parameters follows ``noqa: PLR0913`` in the line of ``def``, and the reason
    for many lines is a comment above it that begins with ``Long:``.
    """
    text = source.splitlines()
    found = []
    for function in functions(source):
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)]) - 1
        above = first
        while above > 0 and text[above - 1].lstrip().startswith("#"):
            above -= 1
        comment = " ".join(text[above:first])
        if parameters(function) > MOST_PARAMETERS and not re.search(
            r"# noqa: PLR0913 - \w", text[function.lineno - 1]
        ):
            found.append(f"{function.name} has {parameters(function)} parameters")
        if lines(function) > MOST_LINES and not re.search(r"# Long: \w", comment):
            found.append(f"{function.name} has {lines(function)} lines")
    return found


def test_functions_are_small_or_say_why_not() -> None:
    found = {
        str(path.relative_to(ROOT)): large
        for folder in ("rbd_control", "bench", "test", "launch")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (large := too_large(path.read_text(encoding="utf-8")))
    }
    assert found == {}


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
