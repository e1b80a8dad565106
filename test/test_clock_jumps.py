"""A clock that goes back in a recording: replay and calibrate behave like the node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from damage import sound

from rbd_control.cli.main import main
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, ContactEvent, DetectorParameters
from rbd_control.joint_states import JUMP_MESSAGES, JointBlock, JointMessage, JointStateIntake
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.playback.replay import replay

MODEL = Model.from_urdf(sound.URDF)
PARAMETERS = DetectorParameters(
    contact_threshold=(2.0,),
    collision_threshold=(20.0,),
    friction_model="coulomb_viscous",
    friction_coulomb=(0.5, 0.3),
    friction_viscous=(0.2, 0.1),
)
PERIOD = 1.0 / sound.RATE
PUSH = (0.4, 0.6)
"""Time of the push on the elbow after the start of a swing [s]."""


def messages(
    jump: float, pause: float = PERIOD, receipt_jumps: bool = False, again: int = 240
) -> list[JointMessage]:
    """Two swings one after the other; the stamps of the second are set back by ``jump`` [s].

    On the clock of the recorder ``pause`` [s] lie between them, unless that clock jumps as well.
    """
    first = sound.swing(1.2)
    second = sound.swing(1.2, seed=1)
    result = []
    for motion, shift, stamps in ((first, 0.0, 0.0), (second, 1.2 - PERIOD + pause, -jump)):
        for k in range(again):
            received = float(motion.t[k]) + shift
            stamp = received + stamps
            values = motion.q[k], motion.v[k], motion.tau[k]
            result.append(
                JointMessage(stamp, stamp if receipt_jumps else received, sound.JOINTS, *values)
            )
    return result


def recorded(
    states: Sequence[JointMessage],
    block: int = 64,
    contacts: tuple[tuple[float, float | None], ...] | None = None,
) -> Recording:
    """Return a recording that is read in blocks of a size."""
    singles = [JointBlock.of(state) for state in states]
    blocks = []
    for first in range(0, len(singles), block):
        part = singles[first : first + block]
        columns = [np.concatenate([each[k] for each in part]) for k in (0, 1, 3, 4, 5)]
        blocks.append(
            [Part(np.arange(len(part)), JointBlock(*columns[:2], sound.JOINTS, *columns[2:]))]
        )
    return Recording(
        Path("made"), "/joint_states", sound.JOINTS, len(states), contacts, lambda _: iter(blocks)
    )


def as_the_node(
    states: Sequence[JointMessage],
) -> tuple[dict[str, int], int, list[ContactEvent]]:
    """Process messages one by one like the node; return counts, jumps and final events."""
    intake = JointStateIntake(sound.JOINTS, follow_jumps=True)
    detector = ContactDetector(MODEL, PARAMETERS)
    jumps = 0
    events: dict[int, ContactEvent] = {}
    for state in states:
        sample = intake.accept(*state)
        if sample is None:
            continue
        if intake.jumps != jumps:
            jumps = intake.jumps
            event = detector.reset()
            if event is not None:
                events[event.id] = event
        event = detector.update(sample.stamp, sample.q, sample.v, sample.tau).event
        if event is not None:
            events[event.id] = event
    return intake.counts, jumps, list(events.values())


JUMPS = {
    "far, seen at once": (100.0, True, 0),
    "far, on the stamps only": (100.0, False, JUMP_MESSAGES - 1),
    "a little": (0.5, False, JUMP_MESSAGES - 1),
}


@pytest.mark.parametrize("block", [7, 1000])
@pytest.mark.parametrize(("back", "receipt_jumps", "lost"), JUMPS.values(), ids=JUMPS.keys())
def test_replay_drops_and_finds_what_the_node_does(
    back: float, receipt_jumps: bool, lost: int, block: int
) -> None:
    states = messages(back, receipt_jumps=receipt_jumps)
    counts, jumps, events = as_the_node(states)
    result = replay(recorded(states, block), MODEL, PARAMETERS)
    assert result.counts == counts
    assert counts["old stamp"] == lost
    assert jumps == len(result.clock_jumps) == 1
    assert result.samples == len(states) - lost
    assert len(result.events) == len(events) == 2
    assert [event.joint for event in result.events] == [event.joint for event in events]
    # The first is on the first clock, the second on the other, which the replay moves.
    start = states[0].stamp
    first, second = events
    assert result.events[0].detected == pytest.approx(first.detected - start, abs=1e-6)
    moved = result.events[1].detected - second.detected
    assert result.events[1].onset - second.onset == pytest.approx(moved, abs=1e-6)


def test_the_time_line_goes_on_with_the_clock_of_the_recorder() -> None:
    pause = 3.0
    states = messages(100.0, pause)
    truth = tuple((sound.START + shift + t,) for shift in (0.0, 1.2 - PERIOD + pause) for t in PUSH)
    contacts = ((truth[0][0], truth[1][0]), (truth[2][0], truth[3][0]))
    result = replay(recorded(states, contacts=contacts), MODEL, PARAMETERS)
    assert result.score is not None
    assert (result.score.misses, result.score.false_events) == (0, 0)
    for contact in result.score.contacts:
        assert contact.onset_error == pytest.approx(0.0, abs=0.02)
    assert result.duration == pytest.approx(2.4 - 2.0 * PERIOD + pause, abs=1e-6)
    (jump,) = result.clock_jumps
    # The first two messages after the jump are taken for stragglers.
    expected = 1.2 - PERIOD + pause + (JUMP_MESSAGES - 1) * PERIOD
    assert jump.time == pytest.approx(expected, abs=1e-6)
    assert jump.back == pytest.approx(100.0, abs=1e-6)


LENGTH, PAUSE = 1.2, 3.0
"""Duration of a pass of a recording that is played again, and pause before the next pass [s]."""


@pytest.mark.parametrize("stamp_shift", [0.0, 100.0 - sound.START], ids=["wall", "simulated"])
def test_each_pass_follows_on_the_clock_of_the_recorder(stamp_shift: float) -> None:
    """The stamps start again in each of three passes; the last of a pass is zero: no stamp."""
    motion, times = sound.swing(LENGTH), list[np.ndarray]()
    states = [
        JointMessage(t + stamp_shift, t + k * (LENGTH + PAUSE), sound.JOINTS, *values)
        for k in range(3)
        for t, *values in zip(motion.t.tolist(), motion.q, motion.v, motion.tau, strict=True)
    ]
    for k in range(motion.t.size - 1, len(states), motion.t.size):
        states[k] = states[k]._replace(stamp=0.0)
    result = replay(
        recorded(states, 7),
        MODEL,
        DetectorParameters(),
        watch=lambda t, _samples, _found: times.append(t),
    )
    assert (np.diff(np.concatenate(times)) > 0.0).all()
    late, back = (JUMP_MESSAGES - 1) * PERIOD, LENGTH + PAUSE
    begins = [k * back + late for k in (1, 2)]
    assert [jump.time for jump in result.clock_jumps] == pytest.approx(begins, abs=1e-6)
    assert [jump.back for jump in result.clock_jumps] == pytest.approx([back, back], abs=1e-6)
    assert result.duration == pytest.approx(2.0 * back + LENGTH - PERIOD, abs=1e-6)


def write_csv(path: Path, states: Sequence[JointMessage]) -> Path:
    names = [f"{what}/{j}" for what in ("position", "velocity", "effort") for j in sound.JOINTS]
    rows = [",".join(["time", *names])]
    for state in states:
        values = (
            state.stamp - sound.START + 1000.0,
            *state.position,
            *state.velocity,
            *state.effort,
        )
        rows.append(",".join(f"{value:.9g}" for value in values))
    path.write_text("\n".join(rows) + "\n")
    return path


def test_the_command_says_when_the_clock_went_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No sample is lost; formerly all after the jump were dropped."""
    log = write_csv(tmp_path / "log.csv", messages(100.0))
    (tmp_path / "two.urdf").write_text(sound.URDF)
    (tmp_path / "detector.yaml").write_text(sound.CONFIG)
    out = tmp_path / "out.json"
    command = ["replay", str(log), "--urdf", str(tmp_path / "two.urdf"), "--json", str(out)]
    assert main([*command, "--config", str(tmp_path / "detector.yaml")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "warning: the clock of the joint states went back by 100 s at 1.200 s" in said
    assert "the detector started again there, as the node does" in said
    content = json.loads(out.read_text())
    assert content["samples"] == 480
    (jump,) = content["clock_jumps"]
    assert (jump["time"], jump["back"]) == pytest.approx((1.2, 100.0), abs=1e-5)
    assert len(content["events"]) == 2


def test_calibration_uses_what_follows_a_jump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice 15 s of motion, where 20 s are needed: with the second half dropped it would fail."""
    (tmp_path / "two.urdf").write_text(sound.URDF)
    parts = [sound.swing(15.0, 100.0, seed) for seed in (0, 1)]
    lines = sound.csv_text(parts[0]) + sound.csv_text(parts[1]).partition("\n")[2]
    (tmp_path / "log.csv").write_text(lines)
    out = tmp_path / "detector.yaml"
    command = ["calibrate", str(tmp_path / "log.csv"), "--urdf", str(tmp_path / "two.urdf")]
    assert main([*command, "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "note: log.csv: the clock went back once, by 15 s at 15.000 s" in said
    # Half a second of each part is left to the observer to settle.
    assert "29 s of motion were used" in said or "30 s of motion were used" in said
    assert out.exists()


def test_true_torques_out_of_order_are_drawn_all_the_same() -> None:
    """Their stamps go back and forth, and one of them is an hour late."""
    states = messages(0.0)
    stamps = np.array([state.stamp for state in states])
    stamps[::3] -= 0.3
    stamps[7], stamps[9] = stamps[0] + 3600.0, stamps[0] - 3600.0
    torques = [
        state._replace(stamp=float(stamp), position=[], velocity=[], effort=[float(k), 1.0])
        for k, (state, stamp) in enumerate(zip(states, stamps, strict=True))
    ]
    recording = recorded(states)
    truth = replace(recording, _true_torques=recorded(torques)._parts)
    series = replay(truth, MODEL, PARAMETERS).true_torque_series
    assert series is not None
    times, lower, upper = series.series()
    assert times.size > 100
    assert 0.0 <= times[0] <= times[-1] <= 2.4
    assert np.all(lower[:, 1] == upper[:, 1])
