"""`rbd-control monitor` beside a running detector."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from geometry_msgs.msg import WrenchStamped

from . import detector_setting as scenarios
from .bringup import BringUp
from .probe import Probe


def monitor(bring_up: BringUp, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bring_up.run("monitor", *arguments)


def test_monitor(bring_up: BringUp, probe: Probe) -> None:
    alone = monitor(bring_up, "--once", "--duration", "0.5")
    assert alone.returncode == 1
    assert "no message received from /contact_detector" in alone.stdout

    bring_up.start(scenarios.NODE, scenarios.PARAMETERS)
    source = probe.stream(scenarios.resting())
    wrenches = probe.listen(WrenchStamped, f"{scenarios.NODE}/external_wrench")
    probe.wait_for_report(scenarios.NODE, lambda r: r.values["valid"] == "1", "no verdict")
    scenarios.touched(source)
    # Both settle within some looks at the contact, and the screen is taken after that.
    probe.wait(
        lambda: (
            wrenches
            and wrenches[-1].header.frame_id == "link_7"
            and np.allclose(scenarios.force_of(wrenches[-1]), scenarios.LINK_FORCE, atol=0.5)
        ),
        "link and force are not found",
    )
    shown = monitor(bring_up, "--once", "--duration", "4").stdout
    told = re.search(r"contact at (\S+), (\S+) N", shown)
    assert told, shown
    assert told[1] == "link_7"
    assert float(told[2]) == pytest.approx(np.linalg.norm(scenarios.FORCE), abs=0.5)
    row = next(line.split() for line in shown.splitlines() if line.strip().startswith("joint_1"))
    assert float(row[1]) == pytest.approx(scenarios.PUSH[0], rel=0.02)
    assert row[2] == "2.00"
    assert row[3].startswith("█")
