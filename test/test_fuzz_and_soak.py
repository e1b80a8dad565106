"""Short forms of ``make fuzz`` and ``make soak``: the same judgement, in seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from system.processor_share import first_at_the_processor

ROOT = Path(__file__).resolve().parent.parent

PATIENCE = 280.0
"""Longest time for a run, with nodes that compile on a busy machine [s]."""


@pytest.fixture(scope="module", autouse=True)
def _first() -> Iterator[None]:
    """Keep ahead of other work on this machine: the nodes have deadlines."""
    with first_at_the_processor():
        yield


def bench(module: str, folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a bench; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments, "--report", str(folder)],
        cwd=ROOT,
        env={**os.environ, "ROS_LOG_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def report(path: Path, output: str) -> Any:
    assert path.exists(), output
    return json.loads(path.read_text(encoding="utf-8"))


def test_odd_inputs_over_the_wire_and_in_files(tmp_path: Path) -> None:
    """No node and no command ends, hangs, shows a traceback or sends a torque over its limit."""
    limits = ("--inputs", "20000", "--files", "2000", "--minutes", "0.05", "--seed", "2")
    code, output = bench("bench.fuzz", tmp_path, *limits)
    found = report(tmp_path / "fuzz.json", output)
    assert code == 0, output
    # How many depends on the machine; a run without any would show nothing.
    assert found["wire"]["sent"] > 0
    assert found["wire"]["torques"] > 0
    assert found["files"]["files"] > 0
