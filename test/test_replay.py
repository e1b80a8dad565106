"""Replay: known external torques come back as events, doubt is said aloud, the command behaves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from robots import REAL_PANDA, RECORDINGS, panda_arm_urdf
from scipy.stats import poisson

from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JointBlock, JointMessage
from rbd_control.playback.curve import FACTORS, scaled
from rbd_control.playback.envelope import Envelope
from rbd_control.playback.joint_matching import match_joints
from rbd_control.playback.labels import read_labels
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import print_result, write_report
from rbd_control.playback.result import Overview
from rbd_control.playback.summary import summarise
from rbd_control.playback.truth import Label, Score, TrueContact, score
from rbd_control.simulation import arm7_urdf

JOINTS = ("arm_shoulder", "arm_elbow")
URDF = """<robot name="two">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0.3 0 0"/><mass value="4"/>
    <inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0.25 0 0"/><mass value="3"/>
    <inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="arm_shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="100" velocity="3"/></joint>
  <joint name="arm_elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0.5 0 0"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="100" velocity="3"/></joint>
</robot>"""
MODEL = Model.from_urdf(URDF)
HAND = MODEL.with_payload("lower", 0.5, (0.5, 0.0, 0.0), np.zeros((3, 3)))
PARAMETERS = DetectorParameters(contact_threshold=(2.0,), collision_threshold=(20.0,))
RATE = 200.0
START = 1000.0

Efforts = Callable[[np.ndarray, np.ndarray], np.ndarray]


def swing(
    push: Sequence[tuple[float, float, float]] = (),
    effort: Efforts = lambda q, tau: tau,
    duration: float = 4.0,
) -> list[JointMessage]:
    """Return a smooth exact motion; ``push`` adds an external elbow torque between two times.

    ``effort`` makes what is recorded of positions and true motor torques.
    """
    t = np.arange(round(duration * RATE)) / RATE
    omega, size, offset = np.array([1.5, 2.5]), np.array([0.5, 0.4]), np.array([-0.3, 0.6])
    phase = t[:, None] * omega
    q = offset + size * np.sin(phase)
    v = size * omega * np.cos(phase)
    a = -size * omega**2 * np.sin(phase)
    external = np.zeros_like(q)
    for begin, end, torque in push:
        external[(t >= begin) & (t < end), 1] = torque
    tau = effort(q, inverse_dynamics(MODEL, q, v, a) - external)
    return [
        JointMessage(START + t[k], START + t[k], JOINTS, q[k], v[k], tau[k]) for k in range(len(t))
    ]


def recorded(
    messages: Sequence[JointMessage],
    contacts: tuple[tuple[float, float | None], ...] | None = None,
) -> Recording:
    parts = [[Part(np.zeros(1, int), JointBlock.of(message))] for message in messages]
    names = tuple(messages[0].name)
    return Recording(
        Path("made"), "/joint_states", names, len(messages), contacts, lambda size: iter(parts)
    )


def write_csv(path: Path, messages: Sequence[JointMessage]) -> Path:
    names = messages[0].name
    columns = [f"{what}/{joint}" for what in ("position", "velocity", "effort") for joint in names]
    rows = [",".join(["time", *columns])]
    for m in messages:
        values = (m.stamp, *m.position, *m.velocity, *m.effort)  # type: ignore[misc]
        rows.append(",".join(map(repr, map(float, values))))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_no_contact_no_event_no_residual() -> None:
    result = replay(recorded(swing()), MODEL, PARAMETERS)
    assert result.events == ()
    assert result.warnings == ()
    # The torque is held over each 5 ms step while the exact motion goes on: about 1 % of the
    # 30 N·m/s at which it changes.
    assert max(r.largest for r in result.residuals) < 0.3
    assert result.samples == 800
    assert result.duration == pytest.approx(3.995)
    assert result.rate == pytest.approx(RATE, rel=1e-6)
    assert result.valid_fraction == pytest.approx(1.0 - 0.1 / 4.0, abs=2 / 800)
    assert result.invalid == {"settling": pytest.approx(0.1, abs=2 / RATE)}


def test_a_push_is_one_event_scored_against_the_truth() -> None:
    truth = ((START + 1.5, START + 2.0),)
    messages = swing([(1.5, 2.0, 8.0)])
    result = replay(recorded(messages, truth), MODEL, PARAMETERS)
    (event,) = result.events
    # 2 of 8 N·m at K_O = 50 1/s take 5.8 ms, and a sample is 5 ms.
    assert 1.5 < event.detected < 1.52
    assert event.onset == pytest.approx(1.5, abs=0.015)
    assert event.release is not None
    assert 2.0 < event.release < 2.3
    assert event.peak_torque == pytest.approx(8.0, abs=0.3)
    assert (event.level, event.joint, event.link) == ("contact", "arm_elbow", "lower")
    assert result.score is not None
    (contact,) = result.score.contacts
    assert contact.event == 0
    assert contact.delay == pytest.approx(event.detected - 1.5)
    assert (result.score.misses, result.score.false_events) == (0, 0)
    elbow = result.residuals[1]
    assert elbow.over_fraction == 0.0, "true contact is no mismatch"
    assert elbow.largest == pytest.approx(8.0, abs=0.3)
    # Half a second of 8 N·m would make an RMS of 2.8 N·m.
    assert elbow.rms < 0.3
    assert abs(elbow.mean) < 0.1


def test_events_are_numbered_as_in_the_node() -> None:
    result = replay(recorded(swing([(1.0, 1.3, 8.0), (2.0, 2.4, 8.0)])), MODEL, PARAMETERS)
    assert [event["id"] for event in result.to_json()["events"]] == [1, 2]


def test_a_contact_that_lasts_to_the_end_has_its_final_level_and_no_release() -> None:
    result = replay(recorded(swing([(3.0, 3.5, 8.0), (3.5, 9.0, 40.0)])), MODEL, PARAMETERS)
    (event,) = result.events
    assert event.release is None
    assert event.level == "collision"
    assert event.peak_torque == pytest.approx(40.0, abs=0.5)
    assert result.to_json()["events"][0]["release"] is None


def test_json_is_what_the_contract_says() -> None:
    result = replay(recorded(swing([(1.5, 2.0, 8.0)]), ((1001.5, 1002.0),)), MODEL, PARAMETERS)
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {"samples", "duration", "valid_fraction", "events", "residual_max", "truth"} <= set(
        content
    )
    assert set(content["events"][0]) == {
        "duration",
        "onset_uncertainty", "candidates", "confidence", "point",
        "id",
        "onset", "detected", "release", "level", "joint", "link", "peak_torque", "force"
    }  # fmt: skip
    assert list(content["residual_max"]) == list(JOINTS)
    assert replay(recorded(swing()), MODEL, PARAMETERS).to_json()["truth"] is None


@pytest.mark.parametrize("missing", ["velocity", "effort"])
def test_without_velocity_or_effort_there_is_no_verdict(missing: str) -> None:
    messages = [m._replace(**{missing: []}) for m in swing([(1.5, 2.0, 8.0)])]
    result = replay(recorded(messages), MODEL, PARAMETERS)
    assert result.valid_fraction == 0.0
    assert result.events == ()
    assert result.invalid == {f"no {missing}": pytest.approx(result.duration)}
    assert result.warnings[0] == "no verdict at any time"
    assert any(f"800 of 800 samples lack {missing}" in w for w in result.warnings)
    assert result.to_json()["residual_max"] == dict.fromkeys(JOINTS)


EFFORTS: dict[str, tuple[Efforts, str]] = {
    "torque": (lambda q, tau: tau, ""),
    "current": (lambda q, tau: 0.09 * tau, "0.09 .* motor current .* effort_gain to 11.1"),
    "millinewtons": (lambda q, tau: 1000.0 * tau, "motor current or another unit"),
    "reversed": (lambda q, tau: -tau, "shoulder has the wrong sign"),
    "gravity taken off": (
        lambda q, tau: tau - gravity_torque(MODEL, q),
        "set effort_kind to torque_without_gravity",
    ),
    "twice as much": (lambda q, tau: 2.0 * tau, "2 times .* another unit"),
    "a hand": (
        lambda q, tau: tau + gravity_torque(HAND, q) - gravity_torque(MODEL, q),
        "carries 0.[45]. kg .* that the model does not know",
    ),
}


@pytest.mark.parametrize(("effort", "says"), EFFORTS.values(), ids=EFFORTS.keys())
def test_effort_that_is_no_torque_is_said_first(effort: Efforts, says: str) -> None:
    trusting = replace(PARAMETERS, check_effort_kind=False)
    result = replay(recorded(swing(effort=effort)), MODEL, trusting)
    if not says:
        assert result.warnings == ()
        return
    # A thousandfold effort is implausible besides, so that there is no verdict.
    warnings = [w for w in result.warnings if w != "no verdict at any time"]
    assert warnings[0].startswith("do not trust the events")
    assert re.search(says, warnings[1])


def test_the_command_refuses_a_kind_of_effort_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It exits as for any wrong input, in the words of the node; the user may overrule it."""
    arm = Model.from_urdf(arm7_urdf())
    q, v = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2]), np.zeros(arm.nv)
    noise = 0.01 * np.random.default_rng(2).normal(size=(500, arm.nv))
    free = [
        JointMessage(0.01 * k, 0.01 * k, arm.joint_names, q, v, effort)
        for k, effort in enumerate(noise, 1)
    ]
    path = write_csv(tmp_path / "free.csv", free)
    command = ["replay", str(path), "--urdf", "arm7"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "free.csv: effort of joint_2 is " in said
    assert "where gravity alone asks for -34.6 N·m: this driver takes gravity off; set" in said
    assert main([*command, "--trust-effort-kind"]) == 0
    assert "this driver takes gravity off" in capsys.readouterr().out
    config = tmp_path / "kind.yaml"
    for parameters in ("check_effort_kind: false", "effort_kind: torque_without_gravity"):
        config.write_text(f"contact_detector:\n  ros__parameters: {{{parameters}}}\n")
        assert main([*command, "--config", str(config)]) == 0


@pytest.mark.parametrize("duration", [4.0, 1.5, 0.5])
@pytest.mark.parametrize("declared", ["torque", "torque_without_gravity"])
def test_effort_that_is_not_measured_is_said_to_be(declared: str, duration: float) -> None:
    """Zeros on all joints are no torque without gravity: nothing is measured."""
    zeros = swing(effort=lambda q, tau: 0.0 * tau, duration=duration)
    parameters = replace(PARAMETERS, effort_kind=declared)
    result = replay(recorded(zeros), MODEL, parameters)
    assert any("effort not measured: it is exactly zero" in text for text in result.warnings)
    assert not any("gravity" in text for text in result.warnings)
    # No effort has ever shown that anything is measured.
    assert result.valid_fraction == 0.0
    assert result.invalid["effort not measured"] > 0.9 * duration
    assert result.events == ()


def test_the_command_says_that_effort_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_csv(tmp_path / "zeros.csv", swing(effort=lambda q, tau: 0.0 * tau))
    urdf = tmp_path / "two.urdf"
    urdf.write_text(URDF)
    assert main(["replay", str(path), "--urdf", str(urdf)]) == 1
    assert "effort not measured" in capsys.readouterr().err


def test_effort_that_is_short_is_judged_by_gravity() -> None:
    """Too little for anything but the ratio of efforts to gravity."""
    efforts = swing(effort=lambda q, tau: -tau, duration=1.0)
    result = replay(recorded(efforts), MODEL, PARAMETERS)
    assert "sign looks reversed" in result.warnings[1]


@pytest.mark.parametrize(
    ("effort", "declared"),
    [
        (lambda q, tau: 0.09 * tau, {"effort_kind": "current", "effort_gain": (1 / 0.09,)}),
        (
            lambda q, tau: tau - gravity_torque(MODEL, q),
            {"effort_kind": "torque_without_gravity"},
        ),
    ],
    ids=["current", "without gravity"],
)
def test_effort_that_is_as_declared_is_not_complained_of(
    effort: Efforts, declared: dict[str, Any]
) -> None:
    result = replay(recorded(swing(effort=effort)), MODEL, replace(PARAMETERS, **declared))
    assert result.warnings == ()
    assert [fit.ratio for fit in result.efforts] == pytest.approx([1.0, 1.0], abs=0.2)


def test_a_collision_is_no_wrong_effort() -> None:
    """Eight times the gravity torque for half of the time, and not a word about the unit."""
    messages = swing([(1.0, 3.0, 60.0)])
    told = replay(recorded(messages, ((START + 1.0, START + 3.0),)), MODEL, PARAMETERS)
    assert told.warnings == ()
    untold = replay(recorded(messages), MODEL, PARAMETERS)
    assert [fit.complaint for fit in untold.efforts] == ["", ""]
    assert any("arm_elbow 5" in w for w in untold.warnings), "50 % of the time above threshold"


def test_a_residual_mostly_above_its_threshold_is_said() -> None:
    def bias(q: np.ndarray, tau: np.ndarray) -> np.ndarray:
        return tau + np.array([4.0, 0.0])

    result = replay(recorded(swing(effort=bias)), MODEL, PARAMETERS)
    (said,) = (w for w in result.warnings if "above its threshold" in w)
    assert "arm_shoulder 100% (mean -4)" in said or "arm_shoulder 100% (mean -3.9)" in said
    assert "friction (none is set)" in said


def test_gap_is_seen_and_explained() -> None:
    messages = [m for m in swing() if not START + 2.0 < m.stamp < START + 2.5]
    result = replay(recorded(messages), MODEL, PARAMETERS)
    assert result.gaps == 1
    assert result.largest_gap == pytest.approx(0.5)
    assert result.invalid == {
        "settling": pytest.approx(0.2, abs=3 / RATE),
        "gap": pytest.approx(0.5, abs=2 / RATE),
    }
    assert result.events == ()


def test_dropped_messages_are_counted() -> None:
    messages = swing()
    messages[10] = messages[10]._replace(position=[np.nan, 0.0])
    messages[20] = messages[20]._replace(stamp=START)
    result = replay(recorded(messages), MODEL, PARAMETERS)
    assert result.samples == 798
    assert "messages dropped: 1 x not finite, 1 x old stamp" in result.warnings


def test_nothing_usable_says_why() -> None:
    messages = [m._replace(velocity=[0.0]) for m in swing()]
    with pytest.raises(RecordingError, match="none of its 800 messages .*800 x lengths"):
        replay(recorded(messages), MODEL, PARAMETERS)


def test_progress_counts_messages() -> None:
    seen: list[int] = []
    replay(recorded(swing()), MODEL, PARAMETERS, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 800


def test_defaults_are_said_to_be_defaults() -> None:
    thresholds, friction = replay(recorded(swing()), MODEL, DetectorParameters()).notes
    # At least 5 % of the effort limit of 100 N·m.
    assert "thresholds are not calibrated" in thresholds
    assert "(5, 5 N·m or N)" in thresholds
    assert "no joint friction is set" in friction
    assert replay(recorded(swing()), MODEL, PARAMETERS).notes == (friction,)


def test_another_prefix_is_matched_and_said() -> None:
    renamed = [m._replace(name=("r2_shoulder", "r2_elbow")) for m in swing([(1.5, 2.0, 8.0)])]
    result = replay(recorded(renamed), MODEL, PARAMETERS)
    assert "r2_shoulder in the recording is taken for arm_shoulder" in result.notes[0]
    (event,) = result.events
    assert event.joint == "arm_elbow"


def test_joint_matching() -> None:
    model = ("p_1", "p_2")
    assert match_joints(model, ("x", "p_2", "p_1"))[0] == model
    assert match_joints(model, ("q_1", "q_2", "grip_1"))[0] == ("q_1", "q_2")
    assert match_joints(model, ("a", "b"), ["b", "a"])[0] == ("b", "a")
    with pytest.raises(RecordingError, match="no joint p_2; .* --lock p_2=POSITION"):
        match_joints(model, ("p_1", "x"))
    with pytest.raises(RecordingError, match="no joint p_1, p_2"):
        match_joints(model, ("left_1", "left_2", "right_1", "right_2"))
    with pytest.raises(RecordingError, match="3 names are given for the model's 2"):
        match_joints(model, ("a", "b", "c"), ["a", "b", "c"])


def test_scoring() -> None:
    """Found, found twice, missed, false, and too close to the end to be held against it."""
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    events = [replace(event, onset=t - 0.01, detected=t) for t in (0.9, 1.1, 1.4, 2.05, 5.0)]
    contacts = [(1.0, 1.5), (2.0, 2.01), (3.0, 3.1), (9.97, None)]
    result = score(contacts, events, 10.0)
    assert [contact.event for contact in result.contacts] == [1, 3, None, None]
    assert result.contacts[0].delay == pytest.approx(0.1)
    assert result.contacts[0].onset_error == pytest.approx(0.09)
    assert (result.misses, result.false_events, result.repeated_events) == (1, 2, 1)


def test_scores_of_links_forces_and_contacts_that_share_an_event() -> None:
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    force = np.array([3.0, 0.0, 4.0])
    events = [
        replace(event, onset=1.0, detected=1.1, release=1.6, force=force),
        replace(
            event,
            onset=3.0,
            detected=3.1,
            release=None,
            link="upper",
            force=None,
            candidates=("upper", "lower"),
        ),
    ]
    labels = [
        Label(1.0, 1.3, "lower", np.array([6.0])),
        Label(1.5, 1.7),
        Label(3.0, 3.5, "lower", np.array([3.0, 1.0, 4.0])),
        Label(4.0, 5.0),
    ]
    contacts = score(labels, events, 10.0).contacts
    assert [contact.event for contact in contacts] == [0, 0, 1, 1]
    assert [contact.delay for contact in contacts] == [pytest.approx(0.1), None] * 2
    assert [contact.link_named for contact in contacts] == [True, None, False, None]
    assert [contact.link_among_named for contact in contacts] == [True, None, True, None]
    assert [contact.force_error for contact in contacts] == [pytest.approx(1.0), None, None, None]
    vector = score([labels[2]._replace(start=1.0)], events, 10.0).contacts[0]
    assert vector.force_error == pytest.approx(1.0)


def test_false_alarm_that_lasts_into_a_contact_does_not_find_it() -> None:
    (event,) = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS).events
    result = score([(2.0, 3.0)], [replace(event, detected=1.0, release=4.0)], 10.0)
    assert (result.misses, result.false_events) == (1, 1)


def test_summary_of_scores() -> None:
    found = [TrueContact(t, t + 1.0, 0, 0.001 * t, -0.002) for t in range(19)]
    missed = TrueContact(20.0, 21.0, None)
    some = summarise([Score(tuple(found), 0, 2, 1), Score((missed,), 1, 1, 0)], 7200.0)
    assert (some.contacts, some.misses, some.repeated_events, some.false_alarms) == (20, 1, 1, 3)
    # Half of 20 are found after the tenth delay, 95 % after the nineteenth.
    assert (some.delay_median, some.delay_p95) == pytest.approx((0.009, 0.018))
    assert some.onset_error_median == pytest.approx(0.002)
    assert some.false_alarms_per_hour == pytest.approx(1.5)
    low, high = some.false_alarms_interval
    # By definition: seeing 3 or more has 2.5 % at the lower rate, 3 or fewer at the upper.
    assert poisson.sf(2, 2.0 * low) == pytest.approx(0.025)
    assert poisson.cdf(3, 2.0 * high) == pytest.approx(0.025)
    worse = summarise([Score((*found[:9], missed), 1, 0, 0)], 0.0)
    assert worse.delay_p95 == np.inf
    content = worse.to_json()
    assert content["delay_p95"] is content["false_alarms_per_hour"] is content["link_named"] is None
    json.dumps(content, allow_nan=False)


def test_curve_trades_delay_for_false_alarms() -> None:
    """A ramp is found the later the higher the threshold; a small bump only by the lowest."""
    bump = [(0.5, 0.9, 1.5)]
    ramp = [(2.0 + 0.05 * k, 2.05 + 0.05 * k, 0.5 * k) for k in range(20)]
    truth = ((START + 2.0, START + 3.0),)
    factors = (0.5, 1.0, 2.0, 9.0)
    result = replay(recorded(swing(bump + ramp), truth), MODEL, PARAMETERS, factors=factors)
    points = dict(Overview((result, result)).curve)
    assert list(points) == list(factors)
    assert points[1.0].delay_median == pytest.approx(result.score.contacts[0].delay)
    delays = [points[factor].delay_median for factor in factors]
    assert delays == sorted(delays)
    assert delays[0] < delays[1] < delays[2] < delays[3] == np.inf
    assert [points[factor].false_alarms for factor in factors] == [2, 0, 0, 0]
    assert [points[factor].misses for factor in factors] == [0, 0, 0, 2]
    # All but settling, the contact and its grace.
    assert points[1.0].free_time == pytest.approx(2 * (4.0 - 0.1 - 1.1), abs=0.05)
    assert replay(recorded(swing(), None), MODEL, PARAMETERS, factors=factors).curve == ()


def test_every_threshold_is_scaled() -> None:
    """Whatever parameter is called a threshold takes part."""
    doubled = scaled(DetectorParameters(), 2.0)
    for item in fields(DetectorParameters):
        before, after = (getattr(p, item.name) for p in (DetectorParameters(), doubled))
        if "threshold" in item.name or item.name == "statistic_speed":
            np.testing.assert_allclose(after, np.multiply(before, 2.0))
        else:
            assert after == before


LABELS = "recording, begin, end, link, force\n"
REFUSED_LABELS = {
    "another column": ("start,end\n1,2\n", "columns are start, end"),
    "nothing": ("", "columns are none"),
    "text": (LABELS + "a,1,soon,,\n", "line 2: end is 'soon', not a number"),
    "another recording": (LABELS + "c,1,2,,\n", "line 2: 'c' is none of the recordings .*a.csv"),
    "which one": ("begin,end\n1,2\n", "line 2: it does not name its recording"),
    "ends before": (LABELS + "a,2,1,,\n", "line 2: end 1 s is not after begin 2 s"),
    "force of two": (LABELS + "a,1,2,,1 2\n", "line 2: force has 2 numbers"),
    "not finite": (LABELS + "a,1,nan,,\n", "line 2: end is 'nan', not a finite number"),
    "cut short": (LABELS + "a,1\n", "line 2: it has another number of columns"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED_LABELS.values(), ids=REFUSED_LABELS.keys())
def test_refused_labels(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(RecordingError, match=says):
        read_labels(tmp_path / "labels.csv", [Path("x/a.csv"), Path("y/b.csv")])


def test_labels(tmp_path: Path) -> None:
    rows = "a,3,,lower,\na.csv,1,2,,1 2 3\ny/b.csv,1,2,upper,5\n"
    (tmp_path / "labels.csv").write_text(LABELS + rows)
    paths = [Path("x/a.csv"), Path("y/b.csv"), Path("c")]
    first, second, third = read_labels(tmp_path / "labels.csv", paths)
    assert [label[:3] for label in first] == [(1.0, 2.0, ""), (3.0, None, "lower")]
    np.testing.assert_array_equal(first[0].force, [1.0, 2.0, 3.0])
    assert (first[1].force, second[0].link, second[0].force.tolist()) == (None, "upper", [5.0])
    assert third == []


def test_command_with_several_recordings(
    tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [
        str(write_csv(tmp_path / f"{name}.csv", swing(push)))
        for name, push in (("pushed", [(1.5, 2.0, 8.0)]), ("free", []))
    ]
    (tmp_path / "labels.csv").write_text(LABELS + "pushed, 1.5, 2.0, lower, 14\n")
    (tmp_path / "detector.yaml").write_text(CONFIG)
    report = tmp_path / "report"
    arguments = ["replay", *logs, "--urdf", urdf, "--config", str(tmp_path / "detector.yaml")]
    arguments += ["--report", str(report)]
    labelled = [*arguments, "--labels", str(tmp_path / "labels.csv"), "--curve"]
    assert main(labelled) == 0
    content = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert list(content) == ["recordings", "summary"]
    pushed, free = content["recordings"]
    assert len(pushed["truth"]["contacts"]) == pushed["truth"]["summary"]["link_named"] == 1
    assert free["truth"]["contacts"] == []
    assert content["summary"]["recordings"] == 2
    truth = content["summary"]["truth"]
    assert (truth["contacts"], truth["misses"], truth["links"]) == (1, 0, 1)
    assert [point["factor"] for point in truth["curve"]] == list(FACTORS)
    pictures = {path.name for path in report.glob("*.png")}
    assert pictures == {"curve.png", "residual_1_pushed.png", "residual_2_free.png"}
    out = capsys.readouterr().out
    assert "link right in 100%" in out
    assert "scores with scaled thresholds" in out
    assert main([*arguments, "--curve"]) == 2
    assert "--labels" in capsys.readouterr().err


def test_envelope_keeps_extremes_in_bounded_memory() -> None:
    generator = np.random.default_rng(1)
    times = np.sort(generator.uniform(0.0, 50.0, 20_000))
    values = generator.normal(size=(20_000, 2))
    values[12_345] = (7.0, -9.0)
    values[:100] = np.nan
    envelope = Envelope(2, bins=64)
    for block in np.array_split(np.arange(20_000), 77):
        envelope.add(times[block], values[block])
    centres, lower, upper = envelope.series()
    assert len(centres) <= 64
    assert np.all(np.diff(centres) > 0.0)
    np.testing.assert_array_equal(np.nanmin(lower, 0), np.nanmin(values, 0))
    np.testing.assert_array_equal(np.nanmax(upper, 0), np.nanmax(values, 0))
    assert abs(centres[np.nanargmax(upper[:, 0])] - times[12_345]) <= np.diff(centres).max()


def test_report(tmp_path: Path) -> None:
    result = replay(recorded(swing([(1.5, 2.0, 8.0)]), ((1001.5, 1002.0),)), MODEL, PARAMETERS)
    write_report(result, tmp_path / "a" / "b")
    content = json.loads((tmp_path / "a" / "b" / "report.json").read_text(encoding="utf-8"))
    assert content == json.loads(json.dumps(result.to_json()))
    assert (tmp_path / "a" / "b" / "residual.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def urdf(tmp_path: Path) -> str:
    (tmp_path / "two.urdf").write_text(URDF)
    return str(tmp_path / "two.urdf")


CONFIG = """
/**:
  ros__parameters:
    use_sim_time: false
contact_detector:
  ros__parameters:
    joints: [arm_elbow, arm_shoulder]
    contact_threshold: [2.0, 3.0]
    collision_threshold: [20.0]
"""


def test_command(tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The node's own parameter file, whose joints are in another order than the model's."""
    log = write_csv(tmp_path / "log.csv", swing([(1.5, 2.0, 8.0)]))
    (tmp_path / "detector.yaml").write_text(CONFIG)
    report, outcome = tmp_path / "report", tmp_path / "out" / "replay.json"
    arguments = ["replay", str(log), "--urdf", urdf, "--config", str(tmp_path / "detector.yaml")]
    assert main([*arguments, "--report", str(report), "--json", str(outcome)]) == 0
    content = json.loads(outcome.read_text(encoding="utf-8"))
    assert [event["joint"] for event in content["events"]] == ["arm_elbow"]
    assert content["threshold"] == {"arm_shoulder": 3.0, "arm_elbow": 2.0}
    assert (report / "report.json").exists()
    assert (report / "residual.png").exists()
    out, err = capsys.readouterr()
    assert "contacts found" in out
    assert "arm_elbow" in out
    assert err == "", "no progress bar where nobody sees it"


def test_links_that_cannot_be_told_apart_are_all_shown() -> None:
    result = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS)
    (event,) = result.events
    for candidates, shown in ((("lower",), "lower "), (("lower", "upper"), "lower 70%, or upper ")):
        text = StringIO()
        of_two = replace(event, link="lower", candidates=candidates, confidence=0.7)
        print_result(replace(result, events=(of_two,)), Console(file=text, width=200))
        assert shown in text.getvalue()


def test_thresholds_of_moving_joints() -> None:
    """What lies between the threshold at rest and that of the speed is not above it."""
    still, fast = ((0.0,), (10.0,))
    shares = [
        replay(
            recorded(swing(effort=lambda q, tau: tau - 3.0)),
            MODEL,
            replace(PARAMETERS, threshold_speed=each),
        )
        .residuals[0]
        .over_fraction
        for each in (still, fast)
    ]
    assert shares[0] > 0.9
    # |v| = 0.75 |cos 1.5 t| rad/s is below 0.1 rad/s for 9 % of the time.
    assert shares[1] == pytest.approx(0.085, abs=0.03)


def test_command_holds_a_joint(
    tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = [
        m._replace(name=("arm_shoulder",), position=m.position[:1], velocity=[0.0], effort=[-1.0])
        for m in swing(duration=0.5)
    ]
    log = write_csv(tmp_path / "log.csv", one)
    arguments = ["replay", str(log), "--urdf", urdf]
    assert main(arguments) == 2
    assert "--lock arm_elbow=POSITION" in capsys.readouterr().err
    assert main([*arguments, "--lock", "arm_elbow=0.5"]) == 0
    assert main([*arguments, "--lock", "arm_wrist=0.5"]) == 2
    assert "arm_wrist" in capsys.readouterr().err


BAD = {
    "no recording": (["nowhere", "--urdf", "{urdf}"], "nowhere: there is no such recording"),
    "no urdf": (["{log}", "--urdf", "nowhere.urdf"], "nowhere.urdf"),
    "no config": (["{log}", "--urdf", "{urdf}", "--config", "nowhere.yaml"], "nowhere.yaml"),
    "a config that is none": (["{log}", "--urdf", "{urdf}", "--config", "{log}"], "log.csv"),
    "unwritable": (["{log}", "--urdf", "{urdf}", "--json", "{log}/x.json"], "log.csv"),
    "a urdf as recording": (["{urdf}", "--urdf", "{urdf}"], "is not a recording; give"),
}


@pytest.mark.parametrize(("arguments", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path,
    urdf: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    log = write_csv(tmp_path / "log.csv", swing(duration=0.5))
    assert main(["replay", *(a.format(log=log, urdf=urdf) for a in arguments)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.startswith("rbd-control: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["replay"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow=much"],
        ["demo", "--duration", "0"],
        ["demo", "--duration", "nan"],
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: rbd-control" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("rbd-control 0.")


def test_demo_gets_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[object] = []
    demo = ModuleType("rbd_control.nodes.demo.run")
    demo.run_demo = lambda *arguments: called.extend(arguments) or 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rbd_control.nodes.demo.run", demo)
    arguments = ["demo", "--duration", "5", "--report", str(tmp_path), "--json", "demo.json"]
    assert main(arguments) == 7
    assert called == [5.0, tmp_path, Path("demo.json"), False, None]
    called.clear()
    assert main(["demo", "--view", "--html", "demo.html"]) == 7
    assert called == [None, None, None, True, Path("demo.html")]


def test_demo_without_ros_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['rclpy'] = None\n"
        "from rbd_control.cli.main import main\n"
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "pip install '.[ros]'" in done.stderr
    assert "Traceback" not in done.stderr


SIMULATED = DetectorParameters(
    contact_threshold=(1.0, 1.2, 1.0, 1.0, 0.5, 0.5, 0.5),
    friction_model="coulomb_viscous",
    friction_coulomb=(0.6, 0.7, 0.6, 0.6, 0.4, 0.3, 0.3),
    friction_viscous=(1.0, 1.0, 1.0, 1.0, 0.6, 0.5, 0.5),
)


@pytest.mark.parametrize(
    ("name", "contacts"),
    [("push20_link7", 1), ("push8_link4", 1), ("collision_link4", 1)],
)
def test_simulated_recordings(name: str, contacts: int) -> None:
    """With friction that is a third off, and thresholds that leave room for it."""
    result = replay(read_recording(RECORDINGS / name), Model.from_urdf(panda_arm_urdf()), SIMULATED)
    assert result.warnings == ()
    assert result.score is not None
    assert len(result.score.contacts) == len(result.events) == contacts
    assert (result.score.misses, result.score.false_events) == (0, 0)
    for contact in result.score.contacts:
        assert contact.onset_error is not None
        assert abs(contact.onset_error) < 0.04


def test_real_panda() -> None:
    """30 Hz, no friction model: the effort is torque, and nothing is doubtful."""
    model = Model.from_urdf(panda_arm_urdf())
    result = replay(read_recording(REAL_PANDA), model, DetectorParameters())
    assert result.warnings == ()
    assert result.valid_fraction > 0.99
    assert result.rate == pytest.approx(30.0, rel=1e-3)
    # Gravity alone explains the torque of joints 2, 3 and 4 to a few per cent.
    for fit in result.efforts[1:4]:
        assert fit.ratio == pytest.approx(1.0, abs=0.05)
        assert fit.correlation > 0.99


def test_long_tables_are_cut() -> None:
    result = replay(recorded(swing([(1.5, 2.0, 8.0)])), MODEL, PARAMETERS)
    text = StringIO()
    many = replace(result, events=result.events * 150)
    print_result(many, Console(file=text, width=200))
    assert "… and 50 more; --json FILE has all" in text.getvalue()
    assert text.getvalue().count("arm_elbow │ lower") == 100
