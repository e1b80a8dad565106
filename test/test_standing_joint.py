"""Joints that stand still although the law moves them: frozen at rest, braked, or blocked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, STILL, Loop, rigid, started

from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    Trajectory,
    TrajectoryPoint,
)
from rbd_control.dynamics import Model
from rbd_control.simulation import arm7_urdf

STIFF = rigid()
FINE = rigid(repeated_torque_share=0.05)
"""For an arm with little friction."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def show_others_alive(
    controller: PassivityController, joint: int, times: np.ndarray, hold: float = 0.0
) -> Command:
    """Show one joint at rest, and the others nearly; samples repeat for the time ``hold``."""
    for t in times:
        shown = t if hold == 0.0 else hold * np.floor(t / hold)
        q = HOME + 1e-6 * np.sin(3e3 * shown) * (np.arange(7) != joint)
        command = controller.update(t, q, STILL)
    return command


def move(joint: int, offset: float, seconds: float) -> list[TrajectoryPoint]:
    return [TrajectoryPoint(HOME + offset * (np.arange(7) == joint), time_from_start=seconds)]


@pytest.mark.parametrize(
    ("joints", "fastest"), [((0,), 1.5), ((1,), 1.5), ((3,), 3.0), (range(7), 3.0)]
)
@pytest.mark.parametrize("seconds", [0.6, 3.0])
def test_joint_states_that_froze_at_rest_let_no_arm_run_away(
    model: Model, joints: Sequence[int], fastest: float, seconds: float
) -> None:
    """Positions at rest and zero velocities repeat, of one joint or of all.

    Without this check the joint came to its stop with 6 to 38 velocity limits.
    """
    loop, here = Loop(model, simulated={"coulomb": (0.0,)}), list(joints)
    loop.run(0.2)
    begin = loop.arm.q
    loop.follow(HOME + 0.3 * np.isin(np.arange(7), here), seconds)
    speeds = []
    for _ in range(round(1.5 * seconds * 1000)):
        sample = loop.arm.reading()
        assert sample is not None
        q, v = np.array(sample.q), np.array(sample.v)
        q[here], v[here] = begin[here], 0.0
        command = loop.controller.update(sample.stamp, q, v, effort=sample.tau)
        if command.mode == "safe":
            break
        loop.arm.step(command.torque)
        speeds.append((np.abs(loop.arm.v) / model.velocity_limit).max())
    assert command.mode == "safe"
    assert "does not move: its joint states have repeated to the last digit" in command.reason
    assert max(speeds) < fastest  # velocity limits


@pytest.mark.parametrize(("part", "mode"), [(0.9, "follow"), (1.1, "safe")])
def test_friction_may_keep_an_arm_at_rest(model: Model, part: float, mode: str) -> None:
    """There is no fault below the share of the effort limit."""
    share = STIFF.repeated_torque_share
    parameters = replace(
        STIFF, damping_rate=0.0, damping=(100.0,), bandwidth=(1.0,), tracking_limit=(100.0,)
    )
    # Without the mass matrix in it the torque is bandwidth * damping * error.
    error = part * share * model.effort_limit[0] / 100.0
    controller = started(model, parameters)
    controller.update(0.001, HOME, STILL)
    controller.set_trajectory(
        model.joint_names,
        [TrajectoryPoint(HOME + [error, 0, 0, 0, 0, 0, 0], time_from_start=20.0)],
    )
    for k in range(1, 2050):
        command = controller.update(0.01 * k, HOME, STILL)
    assert command.mode == mode


@pytest.mark.parametrize("by", ["contact", "float"])
def test_a_change_of_mode_is_no_push(model: Model, by: str) -> None:
    """The torque jumps, and an arm that friction holds still stands."""
    controller = started(model, replace(FINE, safe_torque="zero"))
    stamp = 0.0

    def see(times: int) -> Command:
        nonlocal stamp
        for _ in range(times):
            stamp += 0.001
            command = controller.update(stamp, HOME, STILL, effort=np.ones(7))
        return command

    assert see(100).mode == "hold"
    controller.modes.fault("test")
    assert see(100).mode == "safe"
    controller.resume()
    assert see(100).mode == "hold"
    controller.modes.order("float")
    assert see(100).mode == "float"
    controller.resume()
    controller.modes.motion.run(Trajectory.stop(model.joint_names, HOME + 0.03, STILL, 0.001))
    for k in range(20):  # it comes to be stuck there
        stamp += 0.001
        controller.update(stamp, HOME, STILL, effort=np.full(7, float(k)))
    pressed = see(100)
    assert pressed.mode == "hold"
    if by == "contact":
        controller.contact(True)  # the arm is held where it is
    else:  # a fault here would drop the arm
        controller.modes.order("float")
    released = see(100)
    assert released.mode == {"contact": "hold", "float": "float"}[by]
    assert np.abs(pressed.torque - released.torque).max() > 0.1 * model.effort_limit.max()


@pytest.mark.parametrize("period", [10, 25, 40])
@pytest.mark.parametrize("frozen", [range(7), (1,)], ids=["all joints", "one joint"])
def test_parameters_that_change_often_hide_no_fault(
    model: Model, frozen: Sequence[int], period: int
) -> None:
    """A payload estimator or a slider: each change restarted the comparison of torques.

    Args:
        model: the arm.
        frozen: joints that repeat their state of rest.
        period: period of the changes, in joint states of 1 ms.
    """
    loop = Loop(model, tracking_limit=(100.0,))
    loop.run(0.2)
    begin = loop.arm.q
    loop.follow(HOME + 0.4 * (np.arange(7) == 1), 2.0)
    given, here = loop.controller.parameters, list(frozen)
    for k in range(1000):
        sample = loop.arm.reading()
        assert sample is not None
        q, v = np.array(sample.q), np.array(sample.v)
        q[here], v[here] = begin[here], 0.0
        command = loop.controller.update(sample.stamp, q, v)
        if command.mode == "safe":
            break
        loop.arm.step(command.torque)
        if k % period == 0:
            loaded = model.with_payload("tool", 0.1 + 1e-4 * k, np.zeros(3), 1e-3 * np.eye(3))
            loop.controller.set_parameters(replace(given, slow_factor=0.2 + 1e-5 * k), loaded)
    assert command.mode == "safe"
    assert "to the last digit" in command.reason
    assert np.abs(loop.arm.v).max() < 3.0


def test_a_joint_at_rest_beside_others_that_move_is_not_stuck(model: Model) -> None:
    """Its torque changes with their motion, its state does not: a stiff joint with friction."""
    loop = Loop(model)
    loop.run(0.2)
    sample = loop.arm.reading()
    assert sample is not None
    q0 = sample.q[0]
    target = HOME + np.array([0.0, 0.8, 0.0, 0.8, 0.0, -0.5, 0.0])
    loop.follow(target, 1.0)
    torques = []
    for _ in range(1500):
        sample = loop.arm.reading()
        assert sample is not None
        q, v = np.array(sample.q), np.array(sample.v)
        q[0], v[0] = q0, 0.0
        command = loop.controller.update(sample.stamp, q, v)
        loop.arm.step(command.torque)
        torques.append(command.torque)
    assert np.ptp(torques, axis=0).max() > 0.05 * model.effort_limit.max()
    assert (command.mode, command.goal) == ("hold", "reached")


@pytest.mark.parametrize("amplitude", [1e-6, 0.0])
def test_stuck_joints_are_not_looked_for_on_request(model: Model, amplitude: float) -> None:
    controller = started(
        model, replace(STIFF, repeated_torque_share=2.0, tracking_limit=(100.0,), bandwidth=(60.0,))
    )
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, (), (), 1.0)])
    for k in range(1, 600):
        others = HOME + amplitude * np.sin(k) * (np.arange(7) > 0)
        command = controller.update(0.001 * k, others, STILL)
    assert (command.mode, command.reason) == ("follow", "")


def test_a_joint_that_has_not_yet_felt_its_torque_is_not_stuck(model: Model) -> None:
    """After a gap the desired motion is ahead; no torque of this motion has been sent."""
    controller = started(model, STIFF)
    show_others_alive(controller, 0, np.arange(0.001, 0.1, 0.001))
    controller.set_trajectory(model.joint_names, move(0, 0.3, 0.6))
    command = show_others_alive(controller, 0, np.array([0.14, 0.141, 0.142, 0.143]))
    assert command.mode == "follow", command.reason


@pytest.mark.parametrize("hold", [0.002, 0.01])
def test_a_stuck_joint_is_found_on_hardware_that_updates_slowly(model: Model, hold: float) -> None:
    """The repeated samples of the driver ended the comparison, and the torque went on growing."""
    controller = started(model, replace(STIFF, tracking_limit=(100.0,)))
    show_others_alive(controller, 0, np.arange(0.001, 0.1, 0.001), hold)
    controller.set_trajectory(model.joint_names, move(0, 0.3, 0.6))
    command = show_others_alive(controller, 0, np.arange(0.1, 0.7, 0.001), hold)
    assert command.mode == "safe"
    assert "joint_1 does not move" in command.reason


@pytest.mark.parametrize("repeats", [False, True])
def test_withheld_torque_is_no_sign_of_frozen_joint_states(model: Model, repeats: bool) -> None:
    """The shoulder is saturated, so the wrist cannot move, whatever the law asks of it."""
    parameters = replace(FINE, tracking_limit=(100.0,), velocity_mismatch=0.0)
    controller = started(model, parameters)
    loaded = HOME - 0.3 * (np.arange(7) == 0)
    controller.set_trajectory(model.joint_names, move(6, 0.3, 1.0))
    for k in range(1, 400):
        share = min(k / 200, 1.0)
        alive = 0.0 if repeats and k > 200 else 1e-6 * np.sin(3.0 * k)
        q = HOME + share * (loaded - HOME) + alive * (np.arange(7) < 6)
        command = controller.update(0.001 * k, q, STILL)
        assert command.mode == "follow", (k, command.reason)


def test_friction_below_its_share_makes_no_joint_stuck(model: Model) -> None:
    """Left by a motion with friction to one side, the joint breaks away at that to the other."""
    controller = started(model, STIFF)
    gain = controller.law.damping(HOME)[6] * ControllerParameters().bandwidth[0]
    band = 0.9 * STIFF.repeated_torque_share * model.effort_limit[6] / gain
    desired = [HOME[6]]
    held = [0.0]

    def stiction() -> float:
        """Return the place of a joint that yields when the feedback exceeds its friction."""
        error = desired[-1] - HOME[6] - held[-1]
        if abs(error) > band:
            held.append(desired[-1] - HOME[6] - np.sign(error) * band)
        return held[-1]

    for k in range(12000):
        if k % 4000 == 0:
            target = 0.1 if k == 4000 else -0.1
            controller.set_trajectory(model.joint_names, move(6, target, 3.5))
        q = HOME + 1e-6 * np.sin(3.0 * k) * (np.arange(7) < 6)
        q[6] += stiction()
        command = controller.update(0.001 * (k + 1), q, STILL)
        desired.append(command.q_d[6])
        assert command.mode != "safe", command.reason


def test_torque_that_limits_withhold_moves_no_joint(model: Model) -> None:
    """The shoulder is saturated by a load, and the wrist gets nothing beyond its weight."""
    controller = started(model, replace(FINE, tracking_limit=(100.0,)))
    loaded = HOME - 0.3 * (np.arange(7) == 0)
    controller.set_trajectory(model.joint_names, move(6, 0.3, 1.0))
    controller.set_parameters(replace(FINE, tracking_limit=(100.0,), velocity_mismatch=0.0))
    for k in range(1, 400):
        share = min(k / 200, 1.0)
        q = HOME + share * (loaded - HOME) + 1e-6 * np.sin(3.0 * k) * (np.arange(7) < 6)
        command = controller.update(0.001 * k, q, STILL)
        assert command.mode == "follow", (k, command.reason)
    assert command.saturated


def test_a_load_that_bends_an_arm_at_rest_moves_no_joint(model: Model) -> None:
    """An unknown payload holds it below its desired position, until that comes down to it."""
    controller = started(model, FINE)
    for k in range(1, 2000):
        sag = min(0.001 * k, 0.04) * (np.arange(7) == 0)
        v = -1.0 * (np.arange(7) == 0) * (k < 40)
        command = controller.update(0.001 * k, HOME - sag, v)
        assert command.mode != "safe", command.reason
        if k in (300, 1000):  # a little further away, and to the place where it is
            offset = 0.001 if k == 300 else -0.041
            controller.set_trajectory(model.joint_names, move(0, offset, 0.6))
    share = controller.law.damping(HOME)[0] * STIFF.bandwidth[0] * 0.04 / model.effort_limit[0]
    assert share > 2.0 * FINE.repeated_torque_share


def test_new_gains_make_no_joint_stuck(model: Model) -> None:
    """What the joint has not followed at the gains before is not counted at once."""
    controller = started(model, replace(STIFF, bandwidth=(5.0,), damping_rate=10.0))
    controller.set_trajectory(model.joint_names, move(0, 0.02, 0.5))
    assert show_others_alive(controller, 0, np.arange(0.001, 1.0, 0.001)).mode == "hold"
    controller.set_parameters(STIFF)
    assert show_others_alive(controller, 0, np.arange(1.0, 1.01, 0.001)).mode == "hold"
