"""Joint states that repeat to the last digit: frozen, or an arm at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, started

from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    Trajectory,
    TrajectoryPoint,
)
from rbd_control.control.repetition import Repetition
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.simulation import arm7_urdf

SHIPPED = ControllerParameters()
FASTEST = {0: 2.0, 1: 2.0, 6: 5.5}
"""Speed that a joint may reach before it is known to be stuck [rad/s]; a wrist is light.

It is higher for an encoder that has shown no step yet, as that of the first joint.
"""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


class FrozenLoop(Loop):
    """A controller that receives the last joint state again with new stamps."""

    def freeze(self, time: float, effort: str, each: Callable[[Command], None]) -> Command:
        sample = self.arm.reading()
        assert sample is not None
        random = np.random.default_rng(0)
        for k in range(1, round(time * 1000) + 1):
            measured = None if effort == "none" else sample.tau
            if effort == "live":  # from torque sensors, say, with their noise
                measured = self.arm.torque + 0.01 * random.normal(size=7)
            command = self.controller.update(
                sample.stamp + 0.001 * k, sample.q, sample.v, effort=measured
            )
            self.arm.step(command.torque)
            each(command)
        return command


@pytest.mark.parametrize("effort", ["repeats", "none", "live"])
def test_an_arm_in_motion_does_not_run_away(model: Model, effort: str) -> None:
    """[51] From the first repeated sample to zero torque in less than 20 ms; 14 rad/s once."""
    loop = FrozenLoop(model)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.5)
    before, modes, speeds = np.abs(loop.arm.v).max(), [], []

    def look(command: Command) -> None:
        modes.append(command.mode)
        speeds.append(np.abs(loop.arm.v).max())

    command = loop.freeze(1.0, effort, look)
    assert command.mode == "safe"
    assert "repeated to the last digit" in command.reason
    assert modes.index("safe") < 20
    # Zero torque lets the arm fall; the runaway is over by then.
    assert max(speeds[:20]) < 2.0 * before
    assert not command.torque.any()
    with pytest.raises(InputError, match="no valid joint states"):
        loop.controller.resume()


@pytest.mark.parametrize(
    ("joints", "effort", "fastest"),
    [
        (range(7), "repeats", 0.3),
        (range(7), "none", 0.8),
        (range(7), "live", 0.8),
        ((6,), "repeats", 1.0),
        # A wrist is light: what dry friction may take of its motor makes it fast.
        ((6,), "none", 5.5),
        ((6,), "live", 5.5),
    ],
)
@pytest.mark.parametrize("seconds", [0.6, 3.0])
def test_an_arm_at_rest_does_not_run_away(
    model: Model, joints: range, effort: str, fastest: float, seconds: float
) -> None:
    """Frozen before it begins to move: the motion that does not come is a fault."""
    loop = FrozenLoop(model)
    loop.run(0.2)
    loop.arm._v[:] = 0.0
    loop.arm._sensors._v[:] = 0.0
    loop.arm._reading = loop.arm._sensors.read(loop.arm.time, loop.arm.q, STILL, loop.arm.torque)
    goal = HOME.copy()
    goal[list(joints)] += 0.3
    loop.follow(goal, seconds)
    speeds = []

    def look(command: Command) -> None:
        if command.mode == "follow":
            speeds.append(np.abs(loop.arm.v).max())

    command = loop.freeze(1.0, effort, look)
    assert command.mode == "safe"
    assert "joint states have repeated to the last digit" in command.reason
    assert max(speeds) < fastest
    # Gravity torque for positions that are not true would pump energy.
    assert not command.torque.any()
    with pytest.raises(InputError, match="no valid joint states"):
        loop.controller.resume()


@pytest.mark.parametrize("bits", [12, 14, 16])
@pytest.mark.parametrize("speed", [0.024, 0.1])
def test_slow_motion_on_a_coarse_encoder_is_not_frozen(bits: int, speed: float) -> None:
    """Position and velocity repeat until the next step, and velocities have steps as well."""
    step = 2.0 * np.pi / 2**bits
    repetition = Repetition(("joint",), np.array([10.0]), SHIPPED)
    for k in range(3000):
        q = step * np.round(0.001 * k * speed / step)
        assert repetition.take(0.001 * k, np.array([q]), np.array([speed]), None) == "", k
    # It has shown its steps; 20 of them cannot be missing.
    frozen = [
        repetition.take(3.0 + 0.001 * k, np.array([q]), np.array([20.0 * step / 0.015]), None)
        for k in range(20)
    ]
    assert frozen[-1]


@pytest.mark.parametrize(
    ("rate", "hardware"), [(1000.0, 1000.0), (1000.0, 250.0), (1000.0, 100.0), (200.0, 100.0)]
)
@pytest.mark.parametrize("effort", [True, False])
def test_hardware_that_updates_more_slowly_is_not_frozen(
    model: Model, rate: float, hardware: float, effort: bool
) -> None:
    """The publisher has jitter and is not synchronous with the hardware."""
    controller = PassivityController(model)
    random = np.random.default_rng(0)
    controller.start(0.0, HOME, STILL)
    every, q, v = rate / hardware, HOME, STILL
    due = 0.0
    for k in range(1, round(2.0 * rate)):
        if k >= due:
            due += every + random.uniform(-0.5, 0.5) * (every > 1.0)
            v = np.full(7, 0.02) + random.uniform(-0.01, 0.01, 7)
            q = HOME + 0.001 * random.uniform(-1.0, 1.0, 7)
            tau = random.uniform(-1.0, 1.0, 7)
        command = controller.update(k / rate, q, v, effort=tau if effort else None)
        assert (command.mode, command.reason) == ("hold", "")


@pytest.mark.parametrize("effort", [True, False])
def test_friction_may_keep_an_arm_at_rest(model: Model, effort: bool) -> None:
    """There is no fault below the share of the effort limit, a fifth of it if efforts repeat."""
    parameters = replace(SHIPPED, damping_rate=0.0, damping=(40.0,), bandwidth=(1.0,))
    share = 0.05 * (0.2 if effort else 1.0)
    for part, mode in ((0.9, "follow"), (1.1, "safe")):
        # Without the mass matrix in it the torque is bandwidth * damping * error.
        error = part * share * model.effort_limit[0] / 40.0
        controller = started(model, parameters)
        controller.update(0.001, HOME, STILL)
        controller.set_trajectory(
            model.joint_names,
            [TrajectoryPoint(HOME + [error, 0, 0, 0, 0, 0, 0], time_from_start=20.0)],
        )
        for k in range(1, 2050):
            command = controller.update(
                0.01 * k, HOME, STILL, effort=np.ones(7) if effort else None
            )
        assert command.mode == mode


@pytest.mark.parametrize("by", ["contact", "float"])
def test_a_change_of_mode_is_no_push(model: Model, by: str) -> None:
    """The torque jumps, and an arm that friction holds still stands."""
    controller = started(model, replace(SHIPPED, safe_torque="zero"))
    stamp = 0.0

    def see(times: int) -> Command:
        nonlocal stamp
        for _ in range(times):
            stamp += 0.001
            command = controller.update(stamp, HOME, STILL, effort=np.ones(7))
        return command

    assert see(100).mode == "hold"
    controller.fault("test")
    assert see(100).mode == "safe"
    controller.resume()
    assert see(100).mode == "hold"
    controller.float_()
    assert see(100).mode == "float"
    controller.resume()
    controller._modes._motion.run(Trajectory.stop(model.joint_names, HOME + 0.03, STILL, 0.001))
    for k in range(20):  # it comes to be stuck there
        stamp += 0.001
        controller.update(stamp, HOME, STILL, effort=np.full(7, float(k)))
    pressed = see(100)
    assert pressed.mode == "hold"
    if by == "contact":
        controller.contact(True)  # the arm is held where it is
    else:  # a fault here would drop the arm
        controller.float_()
    released = see(100)
    assert released.mode == {"contact": "hold", "float": "float"}[by]
    assert np.abs(pressed.torque - released.torque).max() > 0.1 * model.effort_limit.max()


def test_frozen_data_stay_so_until_a_number_changes(model: Model) -> None:
    controller = started(model, replace(NO_RATE, repeated_time=0.015))
    for k in range(1, 100):
        command = controller.update(0.001 * k, HOME, STILL + 0.2)
    assert command.mode == "safe"
    assert not command.torque.any()
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    v = STILL + 0.2
    v[3] = np.nextafter(v[3], 1.0)
    assert controller.update(0.1, HOME, v).torque.any()
    assert controller.resume() == "holding here"


@pytest.mark.parametrize("rate", [1000.0, 200.0, 30.0])
def test_three_samples_at_least(model: Model, rate: float) -> None:
    """At any rate two equal samples are no evidence of a frozen driver."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL)
    v = STILL + 0.2
    modes = [controller.update(k / rate, HOME, v).mode for k in range(1, 40)]
    first = modes.index("safe")
    assert first >= 2
    assert first <= max(2, round(0.015 * rate))


def test_repetition_at_rest_is_reported(model: Model) -> None:
    """[13] After 5 s while torque is sent; measured efforts that change are a sign of life."""
    controller = started(model)

    def see(time: float, effort: float) -> str:
        controller.update(time, HOME, STILL, effort=np.full(7, effort))
        return controller.frozen

    times = np.arange(0.01, 5.05, 0.01)
    assert not any(see(t, effort=t) for t in times)
    said = [see(5.05 + t, effort=1.0) for t in times]
    assert said[-1] == "joint states have repeated for 5.03 s while torque is sent"
    assert not any(said[: round(5.0 / 0.01) - 1])
    assert controller.mode == "hold"
    controller.silence(99.0)
    assert not controller.frozen  # no torque


@pytest.mark.parametrize("effort", [np.nan, np.inf])
def test_efforts_that_are_no_numbers_hide_no_repetition(effort: float) -> None:
    repetition = Repetition(("a", "b"), np.ones(2), SHIPPED)
    said = [
        repetition.take(0.001 * k, np.zeros(2), np.full(2, 0.5), np.full(2, effort))
        for k in range(1, 40)
    ]
    first = next(k for k, text in enumerate(said) if text)
    assert "repeated to the last digit" in said[first]
    assert 0.001 * first <= 0.02


@pytest.mark.parametrize("seconds", [0.6, 3.0])
@pytest.mark.parametrize("joint", [0, 1, 6])
def test_a_joint_whose_drive_has_stopped_does_not_run_away(
    model: Model, joint: int, seconds: float
) -> None:
    """[114] One joint repeats its state of rest, the others are live: it got its whole torque."""
    loop = Loop(model)
    loop.run(0.2)
    q0 = loop.arm.q[joint]
    loop.follow(HOME + 0.3 * (np.arange(7) == joint), seconds)
    speeds = []
    for _ in range(round(1.5 * seconds * 1000)):
        sample = loop.arm.reading()
        assert sample is not None
        q, v = np.array(sample.q), np.array(sample.v)
        q[joint], v[joint] = q0, 0.0
        command = loop.controller.update(sample.stamp, q, v, effort=sample.tau)
        if command.mode == "safe":
            break
        loop.arm.step(command.torque)
        speeds.append(np.abs(loop.arm.v).max())
    assert command.mode == "safe"
    assert f"joint_{joint + 1} is stuck, or its joint states are frozen" in command.reason
    assert max(speeds) < FASTEST[joint]


@pytest.mark.parametrize("period", [10, 25, 40])
@pytest.mark.parametrize("frozen", [range(7), (1,)], ids=["all joints", "one joint"])
def test_parameters_that_change_often_hide_no_fault(
    model: Model, frozen: Sequence[int], period: int
) -> None:
    """[51, 114] A payload estimator or a slider: each change restarted the comparison of torques.

    Args:
        model: the arm.
        frozen: joints that repeat their state of rest.
        period: period of the changes, in joint states of 1 ms.
    """
    loop = Loop(model, tracking_limit=(0.0,))
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
    assert np.abs(loop.arm.v).max() < FASTEST[1]


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
        model, replace(SHIPPED, repeated_torque_share=2.0, tracking_limit=(0.0,), bandwidth=(60.0,))
    )
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, (), (), 1.0)])
    for k in range(1, 600):
        others = HOME + amplitude * np.sin(k) * (np.arange(7) > 0)
        command = controller.update(0.001 * k, others, STILL)
    assert (command.mode, command.reason) == ("follow", "")


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


def test_a_joint_that_has_not_yet_felt_its_torque_is_not_stuck(model: Model) -> None:
    """After a gap the desired motion is ahead; no torque of this motion has been sent."""
    controller = started(model, SHIPPED)
    show_others_alive(controller, 0, np.arange(0.001, 0.1, 0.001))
    controller.set_trajectory(model.joint_names, move(0, 0.3, 0.6))
    command = show_others_alive(controller, 0, np.array([0.14, 0.141, 0.142, 0.143]))
    assert command.mode == "follow", command.reason


@pytest.mark.parametrize("hold", [0.002, 0.01])
def test_a_stuck_joint_is_found_on_hardware_that_updates_slowly(model: Model, hold: float) -> None:
    """The repeated samples of the driver ended the comparison, and the torque went on growing."""
    controller = started(model, replace(SHIPPED, tracking_limit=(0.0,)))
    show_others_alive(controller, 0, np.arange(0.001, 0.1, 0.001), hold)
    controller.set_trajectory(model.joint_names, move(0, 0.3, 0.6))
    command = show_others_alive(controller, 0, np.arange(0.1, 0.7, 0.001), hold)
    assert command.mode == "safe"
    assert "joint_1 is stuck" in command.reason


@pytest.mark.parametrize("repeats", [False, True])
def test_withheld_torque_is_no_sign_of_frozen_joint_states(model: Model, repeats: bool) -> None:
    """The shoulder is saturated, so the wrist cannot move, whatever the law asks of it."""
    parameters = replace(SHIPPED, tracking_limit=(0.0,), velocity_mismatch=0.0)
    controller = started(model, parameters)
    loaded = HOME - 0.3 * (np.arange(7) == 0)
    controller.set_trajectory(model.joint_names, move(6, 0.3, 1.0))
    for k in range(1, 400):
        share = min(k / 200, 1.0)
        alive = 0.0 if repeats and k > 200 else 1e-6 * np.sin(3.0 * k)
        q = HOME + share * (loaded - HOME) + alive * (np.arange(7) < 6)
        command = controller.update(0.001 * k, q, STILL)
        assert command.mode == "follow", (k, command.reason)


def test_a_jump_of_the_clock_does_not_end_frozen_joint_states(model: Model) -> None:
    """One more identical sample was accepted, and ``resume`` held a stale posture."""
    controller = started(model, replace(NO_RATE, repeated_time=0.015))
    for k in range(1, 100):
        controller.update(0.001 * k, HOME, STILL + 0.2)
    controller.clock_went_back()
    command = controller.update(0.0, HOME, STILL + 0.2)
    assert command.mode == "safe"
    with pytest.raises(InputError, match="no valid joint states"):
        controller.resume()
    assert controller.update(0.001, HOME + 1e-4, STILL + 0.2) is not None
    assert controller.resume() == "holding here"


def test_friction_below_its_share_makes_no_joint_stuck(model: Model) -> None:
    """Left by a motion with friction to one side, the joint breaks away at that to the other."""
    controller = started(model, SHIPPED)
    gain = controller.law.damping(HOME)[6] * ControllerParameters().bandwidth[0]
    band = 0.9 * SHIPPED.repeated_torque_share * model.effort_limit[6] / gain
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
    controller = started(model, replace(SHIPPED, tracking_limit=(0.0,)))
    loaded = HOME - 0.3 * (np.arange(7) == 0)
    controller.set_trajectory(model.joint_names, move(6, 0.3, 1.0))
    controller.set_parameters(replace(SHIPPED, tracking_limit=(0.0,), velocity_mismatch=0.0))
    for k in range(1, 400):
        share = min(k / 200, 1.0)
        q = HOME + share * (loaded - HOME) + 1e-6 * np.sin(3.0 * k) * (np.arange(7) < 6)
        command = controller.update(0.001 * k, q, STILL)
        assert command.mode == "follow", (k, command.reason)
    assert command.saturated


def test_new_gains_make_no_joint_stuck(model: Model) -> None:
    """What the joint has not followed at the gains before is not counted at once."""
    controller = started(model, replace(SHIPPED, bandwidth=(5.0,), damping_rate=10.0))
    controller.set_trajectory(model.joint_names, move(0, 0.02, 0.5))
    assert show_others_alive(controller, 0, np.arange(0.001, 1.0, 0.001)).mode == "hold"
    controller.set_parameters(SHIPPED)
    assert show_others_alive(controller, 0, np.arange(1.0, 1.01, 0.001)).mode == "hold"
