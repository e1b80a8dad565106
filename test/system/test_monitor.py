"""`rbd-control monitor` beside a running detector."""

from __future__ import annotations

import subprocess
import sys

from diagnostic_msgs.msg import DiagnosticArray

from . import detector_scenarios as scenarios
from .bringup import BringUp
from .probe import Probe


def monitor(bring_up: BringUp, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rbd_control.cli.main", "monitor", *arguments],
        env=bring_up.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_monitor(bring_up: BringUp, probe: Probe) -> None:
    alone = monitor(bring_up, "--once", "--duration", "0.5")
    assert alone.returncode == 1
    assert "nothing heard of /contact_detector" in alone.stdout

    bring_up.start(scenarios.NODE, scenarios.PARAMETERS)
    source = probe.stream(scenarios.resting())
    events = probe.listen(DiagnosticArray, f"{scenarios.NODE}/events")
    probe.wait_for_report(scenarios.NODE, lambda r: r.values["valid"] == "True", "no verdict")
    scenarios.touched(source)
    probe.wait(lambda: events, "no contact")
    shown = monitor(bring_up, "--once", "--duration", "20").stdout
    assert "contact at link_7, 25.5 N" in shown
    row = next(line.split() for line in shown.splitlines() if line.strip().startswith("joint_1"))
    assert float(row[1]) == round(scenarios.PUSH[0], 2)
    assert row[2] == "2.00"
    assert row[3].startswith("█")
