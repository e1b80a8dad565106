"""``docs/faults.md`` and ``test/fault_tests.yaml`` agree: each fault has tests, which exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "faults.md"
TESTS: dict[str, list[str]] = yaml.safe_load(
    (ROOT / "test" / "fault_tests.yaml").read_text(encoding="utf-8")
)
"""Tests by fault. One without brackets stands for all its cases."""

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [A-Z]\d+ \|", line)
]
REFERENCE = re.compile(r"\b[JAOGFPM]\d+\b")


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> set[str]:
    """Return the tests in the files that show faults, with their cases and without.

    A run of all tests has collected them already.
    """
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    files = {test.partition("::")[0] for tests in TESTS.values() for test in tests}
    files |= {str(path.relative_to(ROOT)) for path in ROOT.glob("test/**/test_faults_*.py")}
    known = {item.nodeid for item in request.session.items}
    if not files <= {test.partition("::")[0] for test in known}:
        listed = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
            + sorted(files),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
        known = {line for line in listed.stdout.splitlines() if "::" in line}
    return known | {test.partition("[")[0] for test in known}


def test_every_fault_has_tests_and_no_test_is_without_fault() -> None:
    assert Counter(row[0] for row in ROWS) == Counter(list(TESTS))
    assert not [fault for fault, tests in TESTS.items() if not tests]


def test_every_row_is_filled_in() -> None:
    wrong = [row[0] for row in ROWS if len(row) != 4 or not all(row)]
    assert not wrong, f"rows without four cells: {wrong}"


def test_references_to_other_rows_exist() -> None:
    named = {name for row in ROWS for cell in row[1:] for name in REFERENCE.findall(cell)}
    assert named
    assert not named - set(TESTS)


def test_every_named_test_exists(collected: set[str]) -> None:
    missing = {fault: set(tests) - collected for fault, tests in TESTS.items()}
    missing = {fault: tests for fault, tests in missing.items() if tests}
    assert not missing, f"test/fault_tests.yaml names tests that do not exist: {missing}"


def test_every_test_written_for_faults_is_named(collected: set[str]) -> None:
    named = {test.partition("[")[0] for tests in TESTS.values() for test in tests}
    written = {test.partition("[")[0] for test in collected if "/test_faults_" in test}
    assert not written - named, f"not in test/fault_tests.yaml: {written - named}"
