"""Velocities computed from positions, for drivers that publish none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robots import panda_arm_urdf

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.errors import ParameterError
from rbd_control.joint_states import JointBlock, JointStateIntake, SampleBlock
from rbd_control.node_parameters import CommandingParameters
from rbd_control.playback.configuration import configured_robot
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay
from rbd_control.simulation import arm7_urdf

ROOT = Path(__file__).parents[1]
DATA = ROOT / "test" / "data"

T = 0.02
"""Time constant of the filter [s]."""


def motion(model: Model, seconds: float = 1.0) -> tuple[np.ndarray, ...]:
    """Return times, positions, velocities and torques of sines at 1 kHz."""
    t = 5.0 + 0.001 * np.arange(int(1000 * seconds))
    rate = 2.0 + 0.5 * np.arange(model.nv)
    q, v = 0.3 * np.sin(np.outer(t, rate)), 0.3 * rate * np.cos(np.outer(t, rate))
    tau = np.array([inverse_dynamics(model, *x) for x in zip(q, v, -(rate**2) * q, strict=True)])
    return t, q, v, tau


def filtered(model: Model, q: np.ndarray, tau: np.ndarray, t: np.ndarray) -> SampleBlock:
    """Return the samples of messages without velocity, in one block."""
    intake = JointStateIntake(model.joint_names, velocity_filter=T)
    empty = np.empty((t.size, 0))
    first, rest = intake.accept_block(JointBlock(t, t, model.joint_names, q, empty, tau))
    assert first.v is None
    assert intake.counts["velocity missing"] == 1
    return rest


def test_the_velocity_is_the_derivative_of_the_filtered_position() -> None:
    model = Model.from_urdf(arm7_urdf())
    t, q, _, tau = motion(model)
    out = filtered(model, q, tau, t)
    assert out.v is not None
    np.testing.assert_allclose(T * out.v, q[1:] - out.q, atol=1e-12)
    slope = (out.q[2:] - out.q[:-2]) / 0.002
    error = np.abs(slope - out.v[1:-1]).max()
    assert error < 2e-4  # the slope of q changes by 0.3 · 25 rad/s² · 1 ms, times 1 ms / (2 T)


def test_filtered_samples_obey_the_equation_of_motion() -> None:
    """Late velocities beside the position and effort of now do not, by five times as much."""
    model = Model.from_urdf(arm7_urdf())
    t, q, _, tau = motion(model)
    out = filtered(model, q, tau, t)
    assert out.v is not None
    assert out.tau is not None
    a = np.gradient(out.v, 0.001, axis=0)
    rows = range(200, 900, 50)
    errors = [
        np.array([inverse_dynamics(model, at[k], out.v[k], a[k]) - torque[k] for k in rows])
        for at, torque in ((out.q, out.tau), (q[1:], tau[1:]))
    ]
    ours, mixed = (float(np.sqrt((each**2).mean())) for each in errors)
    assert ours < 0.2 * mixed


def test_single_samples_equal_those_of_a_block_and_restart_with_the_clock() -> None:
    model = Model.from_urdf(arm7_urdf())
    t, q, _, tau = motion(model, 0.05)
    tau[20, 3] = np.nan
    blocks = JointStateIntake(model.joint_names, follow_jumps=True, velocity_filter=T)
    single = JointStateIntake(model.joint_names, follow_jumps=True, velocity_filter=T)
    t = np.r_[t[:30], t[30:] - 3.0]
    names, empty = model.joint_names, np.empty((t.size, 0))
    found = [
        sample
        for each in blocks.accept_block(JointBlock(t, t, names, q, empty, tau))
        for sample in each.samples()
    ]
    alone = [
        sample
        for k in range(t.size)
        if (sample := single.accept(t[k], t[k], names, q[k], (), tau[k])) is not None
    ]
    assert len(found) == len(alone)
    assert [s.v is None for s in found].count(True) == 2
    assert [s.tau is None for s in found].count(True) == 1
    for a, b in zip(found, alone, strict=True):
        assert a.after_jump == b.after_jump
        for x, y in ((a.q, b.q), (a.v, b.v), (a.tau, b.tau)):
            np.testing.assert_array_equal(x, y)


def test_frozen_joint_states_repeat_behind_the_filter() -> None:
    """A velocity that fades would look like an arm that stops, and give a verdict."""
    model = Model.from_urdf(arm7_urdf())
    t, q, _, tau = motion(model, 0.2)
    q[100:150], tau[100:150] = q[100], tau[100]
    out = filtered(model, q, tau, t)
    for values in (out.q, out.v, out.tau):
        assert values is not None
        assert (values[99:149] == values[99]).all()
        assert (values[149] != values[99]).all()


@pytest.mark.parametrize(("name", "contacts"), [("push20_link7", 1), ("free", 0)])
def test_contacts_are_found_without_velocities(name: str, contacts: int, tmp_path: Path) -> None:
    """With the thresholds for velocities of the driver, and no later than by the time constant."""
    urdf, recording = tmp_path / "panda.urdf", read_recording(DATA / name)
    urdf.write_text(panda_arm_urdf())
    config = ROOT / "config" / "panda_mujoco.yaml"
    robot, driver = configured_robot(str(urdf), config, {}, [recording])
    own = replace(driver, velocity_filter=T, velocity_delay=0.0)
    first, second = (replay(recording, robot.model, each).score for each in (driver, own))
    assert first is not None
    assert second is not None
    assert second.misses == second.false_events == second.repeated_events == 0
    assert len(second.contacts) == contacts
    for before, now in zip(first.contacts, second.contacts, strict=True):
        assert before.delay is not None
        assert now.delay is not None
        assert now.delay <= before.delay + T


def test_a_node_that_sends_torque_refuses_late_velocities() -> None:
    with pytest.raises(ParameterError, match="damping by late velocities may drive the arm"):
        replace(CommandingParameters(), velocity_filter=T)
