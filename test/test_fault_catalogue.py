"""``docs/faults.md`` and the tests agree: each fault is shown by a test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "faults.md"
SYSTEM = "test/system/"
CITATION = re.compile(r"`(test/[\w/]+\.py::[^`]+)`")
NUMBERS = re.compile(r"\[(\d+(?:, \d+)*)\]")
REFERENCE = re.compile(
    r"\((\d+)\)|\b(?:as|as in|as row|see|that|way:) (\d+)\b(?!\.\d| %)(?: and (\d+))?",
    re.IGNORECASE,
)
"""References from one row to another: ``as 53``, ``see 1 and 2``, ``(19)``."""


@dataclass(frozen=True)
class Fault:
    """One row of the page."""

    number: int
    fault: str
    answer: str
    tests: tuple[str, ...]


def faults() -> list[Fault]:
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\| *\d+ *\|", line):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert len(cells) == 4, f"a row of docs/faults.md has {len(cells)} cells: {line[:60]}"
            number, fault, answer, shown = cells
            rest = CITATION.sub("", shown).replace("<br>", "").strip()
            assert not rest, f"fault {number}: {rest!r} is no test"
            rows.append(Fault(int(number), fault, answer, tuple(CITATION.findall(shown))))
    return rows


FAULTS = faults()


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> set[str]:
    """Return the tests in the files that the page names, and in those written for faults.

    A test with parameters counts as a whole, and with each of them. A run of all tests has
    collected them already.
    """
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    cited = {test for row in FAULTS for test in row.tests}
    files = {test.partition("::")[0] for test in cited}
    files |= {str(path.relative_to(ROOT)) for path in ROOT.glob("test/**/test_faults_*.py")}
    known = with_functions(item.nodeid for item in request.session.items)
    if cited <= known and files <= {test.partition("::")[0] for test in known}:
        return known
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        + sorted(files),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    return with_functions(line for line in listed.stdout.splitlines() if "::" in line)


def with_functions(tests: Iterable[str]) -> set[str]:
    """Return tests with and without their parameters."""
    found = set(tests)
    return found | {test.partition("[")[0] for test in found}


def test_numbers_are_complete() -> None:
    """Each number from 1 on occurs once: a fault keeps its number, and none is lost."""
    assert sorted(row.number for row in FAULTS) == list(range(1, len(FAULTS) + 1))


def test_every_row_is_filled_in() -> None:
    empty = [row.number for row in FAULTS if not (row.fault and row.answer and row.tests)]
    assert not empty, f"faults without description, answer or test: {empty}"


def test_every_cited_test_exists(collected: set[str]) -> None:
    missing = {row.number: set(row.tests) - collected for row in FAULTS}
    missing = {number: tests for number, tests in missing.items() if tests}
    assert not missing, f"docs/faults.md names tests that do not exist: {missing}"


def test_every_test_written_for_faults_is_cited(collected: set[str]) -> None:
    """Tests are compared by function: the page need not list all parameters of a test."""
    cited = {test.partition("[")[0] for row in FAULTS for test in row.tests}
    written = {test.partition("[")[0] for test in collected if "/test_faults_" in test}
    assert not written - cited, f"not in docs/faults.md: {written - cited}"


def test_references_to_other_rows_exist() -> None:
    known = {row.number for row in FAULTS}
    named = {
        row.number: {
            int(number)
            for match in REFERENCE.findall(f"{row.fault} {row.answer}")
            for number in match
            if number
        }
        for row in FAULTS
    }
    assert named[1] == {3}
    assert named[3] == {1, 2}
    assert named[112] == {117}
    unknown = {number: rows - known for number, rows in named.items() if rows - known}
    assert not unknown, f"rows that refer to rows which do not exist: {unknown}"


@cache
def numbered(path: Path) -> dict[str, set[int]]:
    """Return the numbers at the start of the docstrings of a file, by function."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            numbers = NUMBERS.match(ast.get_docstring(node) or "")
            if numbers:
                found[node.name] = {int(number) for number in numbers[1].split(", ")}
    return found


def test_cited_tests_name_the_rows_that_cite_them() -> None:
    """A test names all rows that cite it, and no row that cites other tests of its file instead.

    Tests without numbers are left out.
    """
    citing: dict[tuple[str, str], set[int]] = {}
    citing_file: dict[str, set[int]] = {}
    named: dict[tuple[str, str], set[int]] = {}
    for row in FAULTS:
        for test in row.tests:
            file, _, name = test.partition("::")
            function = name.partition("[")[0]
            citing_file.setdefault(file, set()).add(row.number)
            known = numbered(ROOT / file)
            if function in known:
                named[file, function] = known[function]
                citing.setdefault((file, function), set()).add(row.number)
    wrong = {
        "::".join(test): f"names {sorted(rows)}, cited by {sorted(citing[test])}"
        for test, rows in named.items()
        if citing[test] - rows or (rows & citing_file[test[0]]) - citing[test]
    }
    assert named
    assert wrong == {}


def test_numbers_in_the_tests_are_those_of_the_page() -> None:
    """Docstrings and comments of the system tests name faults as [4, 5]."""
    known = {row.number for row in FAULTS}
    for path in sorted((ROOT / SYSTEM).glob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r'"""\[\d|# \[\d', line):
                found = NUMBERS.search(line)
                assert found, f"{path.name}: {line.strip()}"
                numbers = {int(number) for number in found[1].split(", ")}
                assert numbers <= known, f"{path.name} names {numbers - known}: {line.strip()}"
