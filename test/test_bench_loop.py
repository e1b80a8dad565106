"""The arithmetic of `make bench-loop`; how fast anything is, is not tested."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from bench.loop.__main__ import WIDTH, write
from bench.loop.figures import (
    answers,
    latency,
)
from bench.loop.run import Loop, Usage
from bench.loop.sheet import losses, targets

MS = 1_000_000


def test_answers_are_matched_with_what_was_sent() -> None:
    """One of five joint states has no answer; answers to older ones do not count."""
    sent = [k * MS for k in range(10, 15)]
    heard = [(9 * MS, 10 * MS), *((s, s + MS // 2) for s in sent[:3]), (sent[4], sent[4] + 2 * MS)]
    heard.append((sent[0], sent[0] + 50 * MS))  # a second answer
    found = answers(sent, heard, period=0.001)
    assert (found.sent, found.unanswered, found.late) == (5, 1, 1)
    assert found.latency.median == pytest.approx(0.5)
    assert found.latency.worst == pytest.approx(2.0)


def loop(core: float = 0.2, shift: int = MS // 2, missing: int = 0, achieved: float = 1e3) -> Loop:
    """Return a run in which all answers took the same time."""
    sent = [k * MS for k in range(1000)]
    every = answers(sent, [(s, s + shift) for s in sent[missing:]], 0.001)
    used = Usage(core, 100.0, 0.0, (0.0, 1.0), (100, 100))
    nodes = ("passivity_controller", "contact_detector")
    flag = latency([0.5])
    usage = dict.fromkeys(("arm", *nodes), used)
    lost = dict.fromkeys(nodes, 0)
    return Loop(1e3, 1.0, achieved, every, every, every, flag, usage, lost, 0, "")


def test_targets_are_missed_one_by_one() -> None:
    assert all(target.met for target in targets(loop()))
    for bad, what in (
        (loop(core=0.3), {"contact_detector, cores"}),
        (
            loop(shift=2 * MS),
            {"joint state to torque, p99 [ms]", "joint state to residual, p99 [ms]"},
        ),
        (loop(missing=1), {"joint states delivered and lost"}),
    ):
        assert {target.text for target in targets(bad) if not target.met} == what


def test_a_joint_state_skipped_for_a_newer_one_is_not_lost(tmp_path: Path) -> None:
    """Unanswered are two skipped, two lost on the way and one lost joint state."""
    torque = loop(missing=5).torque
    residual = loop(missing=2).residual
    on_the_way = {"passivity_controller": 2, "contact_detector": 2}
    run = replace(loop(), torque=torque, residual=residual, lost_on_the_way=on_the_way, skipped=2)
    assert losses(run) == {"passivity_controller": 1, "contact_detector": 0}
    assert losses(replace(run, skipped=3)) == dict.fromkeys(on_the_way, 0)
    text = StringIO()
    write([run], tmp_path, Console(file=text, width=WIDTH))
    assert (
        "joint states delivered and lost (2 more skipped by the controller for a newer one)"
        in text.getvalue()
    )
    row = next(line for line in text.getvalue().splitlines() if "│ torque " in line)
    assert [cell.strip() for cell in row.split("│")[-4:-1]] == ["5", "2", "1000"]
    page = (tmp_path / "loop.md").read_text(encoding="utf-8")
    assert "| joint states skipped by passivity_controller for a newer one | 2 |" in page
