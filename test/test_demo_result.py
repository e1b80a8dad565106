"""Evaluation of the demo: results that pass, and results that must fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbd_control.estimation import ContactEvent
from rbd_control.live.demo_report import (
    DemoLog,
    judge,
)

EPOCH = 1.7e9
STARTS = (2.0, 4.0)
LENGTH = 0.4


def recorded() -> DemoLog:
    """Six seconds at 1 kHz of two joints, touched twice and found after 8 ms each time."""
    log = DemoLog(("a", "b"), (1.0, 2.0), ("push", "collision"))
    log.begin = EPOCH + 1.0
    log.valid_fraction = 0.99
    for k in range(6000):
        time = EPOCH + 0.001 * (k + 1)
        touched = any(start < 0.001 * (k + 1) <= start + LENGTH for start in STARTS)
        log.true_torque.add(time, (0.0, 3.0 if touched else 0.0))
        log.residual.add(time, (0.1, -3.0 if touched else 0.2))
        # An error of 10 mrad, and ten times that where it is not judged.
        log.tracking_error.add(time, (0.1, 0.1) if touched or k < 900 else (0.01, -0.01))
        if touched:
            log.true_forces.append((time, "hand", np.array([0.0, 20.0, 0.0])))
    for i, start in enumerate(STARTS):
        log.events[i] = ContactEvent(
            id=i,
            phase="release",
            level="contact",
            onset=EPOCH + start + 0.001,
            detected=EPOCH + start + 0.008,
            release=EPOCH + start + LENGTH + 0.2,
            joint="b",
            link="hand",
            peak_torque=3.0,
            force=np.array([0.0, 19.0, 0.0]),
        )
    return log


def test_a_good_run_passes() -> None:
    result = judge(recorded())
    assert result.failures == ()
    assert result.tracking_rms == pytest.approx(0.01, rel=1e-9)
    # Stamps of 1.7e9 s are good to 0.2 µs.
    delays = [contact.delay for contact in result.score.contacts]
    assert delays == pytest.approx([0.009, 0.009], abs=1.1e-3)
    assert [contact.link for contact in result.contacts] == ["hand", "hand"]
    plain = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert plain["samples"] == 6000
    assert plain["residual_max"] == {"a": 0.1, "b": 3.0}
    assert plain["events"][0]["onset"] == pytest.approx(2.0, abs=2e-3)
    assert [event["id"] for event in plain["events"]] == [event.id for event in result.events]
    assert plain["truth"]["contacts"][1]["what"] == "collision"
    assert plain["passed"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.events.pop(1), "collision: missed"),
        (
            lambda log: log.events.update({0: replace(log.events[0], detected=EPOCH + 2.05)}),
            "push: found after",
        ),
        (
            lambda log: log.events.update(
                {7: replace(log.events[0], onset=EPOCH + 1.0, detected=EPOCH + 1.01)}
            ),
            "1 other event",
        ),
        (lambda log: log.tracking_error.add(EPOCH + 6.0, (3.0, 3.0)), "tracking error"),
        (
            lambda log: setattr(log, "staged", ("push", "collision", "second push")),
            "second push: did not happen",
        ),
    ],
)
def test_each_failure_is_reported(change: Callable[[DemoLog], object], said: str) -> None:
    log = recorded()
    change(log)
    result = judge(log)
    assert len(result.failures) == 1
    assert said in result.failures[0]
    assert result.to_json()["passed"] is False


def test_outputs_are_checked_before_the_nodes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    from rbd_control.live import demo

    monkeypatch.setattr(demo, "_record", lambda *_: pytest.fail("the demo has started"))
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    for report, outcome, named in ((None, folder, folder), (file, None, file)):
        with pytest.raises(OSError, match="Is a directory|File exists") as refused:
            demo.run_demo(report=report, json_path=outcome)
        assert refused.value.filename == str(named)
