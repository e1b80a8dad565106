"""The player of recordings: it plays all messages and ends, or loops until a signal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sensor_msgs.msg import JointState

from .bringup import BringUp
from .probe import Probe

HEADER = "time,position/elbow,velocity/elbow,effort/elbow"


def recording(at: Path, *rows: str) -> str:
    at.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return str(at)


def test_the_player_plays_all_and_ends(bring_up: BringUp, probe: Probe, tmp_path: Path) -> None:
    times = 100.0 + 0.02 * np.arange(60)
    rows = [f"{t:.3f},{0.01 * k},{0.5},{-0.1 * k}" for k, t in enumerate(times)]
    file = recording(tmp_path / "motion.csv", *rows)
    states = probe.listen(JointState, "played")
    player = bring_up.start(
        "joint_state_player",
        {"recording": file, "autostart": False},
        ["-r", "joint_states:=played"],
    )
    probe.wait(lambda: probe.node.count_publishers("played"), "no player")
    for transition in ("configure", "activate"):
        assert probe.change("joint_state_player", transition)
    assert player.wait() == 0, player.output
    probe.wait(
        lambda: states and round(states[-1].position[0] / 0.01) == 59, "not played to the end"
    )
    # Discovery may cost the first messages; all from one of them on must be there.
    first = round(states[0].position[0] / 0.01)
    assert [round(s.position[0] / 0.01) for s in states] == list(range(first, 60))
    assert list(states[0].name) == ["elbow"]
    assert states[-1].effort[0] == pytest.approx(-5.9)
    stamps = [s.header.stamp.sec + 1e-9 * s.header.stamp.nanosec for s in states]
    assert np.allclose(np.diff(stamps), 0.02, atol=1e-6)
    assert abs(stamps[-1] - probe.node.get_clock().now().nanoseconds * 1e-9) < 60.0


def test_a_recording_that_is_damaged_further_on(bring_up: BringUp, tmp_path: Path) -> None:
    """Its damage is not found at the start."""
    rows = [f"{100.0 + 0.01 * k:.3f},0.1,0.0,1.0" for k in range(100)]
    file = recording(tmp_path / "damaged.csv", *rows, "101.0,what,0.0,1.0")
    player = bring_up.start("joint_state_player", {"recording": file}, ["-r", "__node:=damaged"])
    assert player.wait() == 1
    assert "damaged.csv: line 102" in player.output
    assert "Traceback" not in player.output
