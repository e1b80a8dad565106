"""The steady cycle of the nodes in one process: no garbage, no growing memory, one publication."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """Return what the benchmark of a cycle measures, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.loop.cycle", "--count", "3000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["mode"] == "hold", done.stderr
    assert found["valid"], done.stderr
    return found


def test_the_garbage_collector_does_not_run(measured: dict[str, Any]) -> None:
    """A collection of the oldest generation would delay a torque by milliseconds.

    The cycle makes no reference cycles, so that no generation fills up; a single young collection
    may be due to objects from before the measurement.
    """
    youngest, *older = measured["collections"]
    assert youngest <= 1
    assert not any(older)


def test_memory_does_not_grow(measured: dict[str, Any]) -> None:
    """Far less than an object per joint state, which would be 16 bytes or more."""
    assert abs(measured["bytes"]) < 16_000


def test_only_the_torque_is_published_without_subscribers(measured: dict[str, Any]) -> None:
    assert measured["publications"] == 1.0


def test_the_way_of_a_joint_state_does_not_grow_unnoticed(measured: dict[str, Any]) -> None:
    """Calls of Python functions until the torque is published; today 15 and 128."""
    assert measured["calls"]["detector"] <= 18
    assert measured["calls"]["controller"] <= 134
