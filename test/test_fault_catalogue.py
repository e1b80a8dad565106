"""``docs/faults.md`` and the tests agree: each fault is shown on a running node or command."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "faults.md"
SYSTEM = "test/system/"
COMMAND_LINE = "rbd_control.cli"

PROCESSES = "test/dynamics/test_kernel_cache.py"
"""Compiled code is the same for all nodes; a cold start of a node takes a minute, so these tests
start processes with kernels of their own."""

CITATION = re.compile(r"`(test/[\w/]+\.py::[^`]+)`")
NUMBERS = re.compile(r"\[(\d+(?:, \d+)*)\]")


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
def collected() -> set[str]:
    """Return the tests in the files that the page names, and in those written for faults."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    files = {test.partition("::")[0] for row in FAULTS for test in row.tests}
    files |= {str(path.relative_to(ROOT)) for path in ROOT.glob("test/**/test_faults_*.py")}
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
        + sorted(files),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    return {line for line in listed.stdout.splitlines() if "::" in line}


def test_numbers_are_complete() -> None:
    """Each number from 1 on occurs once: a fault keeps its number, and none is lost."""
    assert sorted(row.number for row in FAULTS) == list(range(1, len(FAULTS) + 1))


def test_every_row_is_filled_in() -> None:
    empty = [row.number for row in FAULTS if not (row.fault and row.answer and row.tests)]
    assert not empty, f"faults without description, answer or test: {empty}"


def test_every_fault_is_shown_on_a_running_node_or_command() -> None:
    def is_shown(test: str) -> bool:
        file = test.partition("::")[0]
        if test.startswith((SYSTEM, PROCESSES)):
            return True
        return COMMAND_LINE in (ROOT / file).read_text(encoding="utf-8")

    hidden = [row.number for row in FAULTS if not any(map(is_shown, row.tests))]
    assert not hidden, f"faults shown by unit tests only: {hidden}"


def test_every_cited_test_exists(collected: set[str]) -> None:
    missing = {row.number: set(row.tests) - collected for row in FAULTS}
    missing = {number: tests for number, tests in missing.items() if tests}
    assert not missing, f"docs/faults.md names tests that do not exist: {missing}"


def test_every_test_written_for_faults_is_cited(collected: set[str]) -> None:
    """Tests are compared by function: the page need not list all parameters of a test."""
    cited = {test.partition("[")[0] for row in FAULTS for test in row.tests}
    written = {test.partition("[")[0] for test in collected if "/test_faults_" in test}
    assert not written - cited, f"not in docs/faults.md: {written - cited}"


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
