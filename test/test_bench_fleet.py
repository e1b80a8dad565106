"""``python -m bench.fleet`` with few recordings: failures lose only damaged recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.fleet.damage import DAMAGES
from bench.fleet.measure import run, run_on_dask
from bench.fleet.recordings import PUSH, RATE, make_fleet


def test_a_killed_worker_and_damaged_recordings_lose_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    fleet = make_fleet(tmp_path, count=24, seconds=3.0, copies=5)
    assert len(fleet.damaged) == len(DAMAGES) == 5
    local = run(fleet, "2 workers", ("--workers", "2"))
    dask = run_on_dask(fleet, 2)
    assert dask.killed == 1
    assert local.problems(fleet, local) + dask.problems(fleet, local) == []
    assert sum(result is None for result in dask.results.values()) == len(DAMAGES)
    for record in _records(tmp_path):
        if record["result"] is None:
            assert record["status"] == "bad"
            assert record["reason"]
            assert "internal error" not in record["reason"]
        elif record["arm"] != "panda":
            # The simulated arms are as described: no false alarm, and the push is found.
            truth = record["result"]["truth"]
            assert record["result"]["samples"] == 3 * RATE
            assert truth["false_events"] == truth["misses"] == 0
            assert len(truth["contacts"]) == (0 if record["free"] else 1)
            assert all(event["peak_torque"] > 0.5 * PUSH for event in record["result"]["events"])
            assert record["day"][:4] == "2026"


def _records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in folder.glob("results_*/replay/*.json")]
