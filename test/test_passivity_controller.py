"""The controller's brain: modes, limits and faults, on the simulated arm and on rubbish."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, started
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.control import (
    Command,
    ControllerParameters,
    PassivityController,
    SlotineLiController,
    TrajectoryPoint,
)
from rbd_control.control.motion import Motion
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.control.slotine_li import LawTorque
from rbd_control.dynamics import Model, frame_placement, gravity_torque
from rbd_control.errors import InputError, ParameterError, TrajectoryError
from rbd_control.simulation import SimulatedArm, Sphere, arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# --- Modes ---------------------------------------------------------------------------------------


def test_does_nothing_before_start(model: Model) -> None:
    controller = PassivityController(model)
    command = controller.update(0.0, HOME, STILL)
    assert (command.mode, command.reason) == ("safe", "not started")
    assert not command.torque.any()
    assert controller.silence(99.0) is None
    with pytest.raises(TrajectoryError, match="not started"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])
    with pytest.raises(InputError, match="not started"):
        controller.resume()


@pytest.mark.parametrize(
    ("q", "v", "why"),
    [
        (HOME, None, "no velocity"),
        (HOME, np.full(7, np.nan), "not finite"),
        (np.full(7, np.inf), STILL, "not finite"),
        (HOME[:6], STILL, "7 joints"),
        (HOME, np.full(7, 50.0), "joint_1 at a speed of 50 is implausible"),
    ],
)
def test_start_is_refused_without_a_plausible_state(model: Model, q: Any, v: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        PassivityController(model).start(0.0, q, v)


def test_holds_then_follows_then_holds(model: Model) -> None:
    loop = Loop(model)
    command = loop.run(0.5)
    assert command.mode == "hold"
    assert command.goal == "none"
    assert np.abs(loop.arm.q - HOME).max() < 0.02
    target = HOME + 0.3
    loop.follow(target, 1.0)
    command = loop.run(0.5)
    assert (command.mode, command.goal) == ("follow", "moving")
    assert np.all(command.v_d > 0.1)
    command = loop.run(1.0)
    assert (command.mode, command.goal) == ("hold", "reached")
    assert np.array_equal(command.q_d, target)
    assert np.abs(loop.arm.q - target).max() < 0.02


def test_goal_is_missed_when_friction_keeps_the_arm_off(model: Model) -> None:
    loop = Loop(model, goal_time=0.3, goal_tolerance=1e-5)
    loop.follow(HOME + 0.1, 0.5)
    assert loop.run(0.7).goal == "moving"
    command = loop.run(0.3)
    assert (command.mode, command.goal) == ("hold", "missed")


def test_replacing_a_trajectory_makes_no_jump(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.4, 1.0)
    before = loop.run(0.5)
    loop.follow(HOME - 0.4, 1.5)
    after = loop.run(0.001)
    assert np.allclose(after.q_d, before.q_d + 1e-3 * before.v_d, atol=1e-5)
    assert np.allclose(after.v_d, before.v_d, atol=5e-3)  # 1 ms of a few rad/s²
    assert loop.run(2.0).goal == "reached"


def test_a_bad_trajectory_leaves_the_old_one_running(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.2, 1.0)
    loop.run(0.3)
    with pytest.raises(TrajectoryError, match="point 0, joint 'joint_2'"):
        loop.follow(HOME + [0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.0)
    assert loop.run(1.0).goal == "reached"
    assert np.allclose(loop.run(0.001).q_d, HOME + 0.2)


def test_a_stamped_trajectory_starts_when_it_says(model: Model) -> None:
    controller = started(model)
    point = TrajectoryPoint(HOME + 0.1, time_from_start=1.0)
    controller.set_trajectory(model.joint_names, [point], now=500.0, stamp=501.0)
    for k in range(1, 200):
        command = controller.update(0.01 * k, HOME, STILL)
    assert command.goal == "moving"
    assert np.allclose(controller.update(2.001, HOME, STILL).q_d, HOME + 0.1)
    with pytest.raises(TrajectoryError, match="ended 3 s ago"):
        controller.set_trajectory(model.joint_names, [point], now=505.0, stamp=501.0)


def test_hold_stays_here_and_resume_goes_on(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.4)
    loop.controller.hold()
    here, v = loop.arm.q, loop.arm.v
    loop.run(0.1, lambda command: np.testing.assert_array_less(np.abs(loop.arm.v), 1.1 * v.max()))
    assert np.abs(loop.arm.q - here).max() < 0.02  # stop_time has passed
    command = loop.run(0.4)
    assert (command.mode, command.goal) == ("hold", "paused")
    assert np.allclose(command.q_d, here, atol=1e-3)  # one period at the arm's speed
    assert np.abs(loop.arm.q - command.q_d).max() < 0.02
    with pytest.raises(TrajectoryError, match=r"stays in hold \(held by request\): resume first"):
        loop.follow(HOME, 1.0)
    assert loop.controller.resume() == "following the trajectory again"
    command = loop.run(2.5)
    assert (command.goal, command.reason) == ("reached", "")
    assert np.array_equal(command.q_d, HOME + 0.5)


def test_float_yields_to_a_push_and_forgets_the_trajectory(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.5, 2.0)
    loop.run(0.2)
    loop.controller.float_()
    command = loop.run(0.3)
    assert (command.mode, command.goal) == ("float", "cancelled")
    assert np.allclose(command.torque, gravity_torque(model, command.q_d))
    here = loop.arm.q
    loop.arm.push("link_4", (0.0, 20.0, 0.0), duration=0.5)
    loop.run(0.5)
    assert np.abs(loop.arm.q - here).max() > 0.1
    assert loop.controller.resume() == "holding here"
    assert loop.run(0.001).mode == "hold"
    assert loop.controller.resume() == "nothing to resume from: in hold"


@pytest.mark.parametrize(("reaction", "mode"), [("hold", "hold"), ("float", "float")])
def test_contact_reaction_is_latched(model: Model, reaction: str, mode: str) -> None:
    loop = Loop(model, contact_reaction=reaction)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.3)
    loop.controller.contact(True)
    command = loop.run(0.01)
    assert (command.mode, command.reason) == (mode, "contact")
    assert not np.array_equal(command.q_d, HOME)
    loop.controller.contact(False)
    assert loop.run(0.1).mode == mode
    loop.controller.resume()
    assert loop.run(0.001).reason == ""


def test_without_reaction_contact_changes_nothing(model: Model) -> None:
    loop = Loop(model, contact_reaction="none")
    loop.follow(HOME + 0.5, 1.0)
    loop.controller.contact(True)
    assert loop.run(0.01).mode == "follow"


# --- Limits --------------------------------------------------------------------------------------


def test_torque_is_cut_to_the_limits_and_flagged(model: Model) -> None:
    parameters = replace(NO_RATE, torque_share=(0.5,))
    controller = started(model, parameters)
    assert not controller.update(0.001, HOME, STILL).saturated
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, 1.0, 1.0])
    command = controller.update(0.002, HOME, v)
    assert command.saturated
    used = np.abs(command.torque) / (0.5 * model.effort_limit)
    assert used.max() == pytest.approx(1.0)


def test_torque_changes_at_its_rate(model: Model) -> None:
    controller = started(model, ControllerParameters(torque_rate=(100.0,)))
    wanted = gravity_torque(model, HOME)
    command = controller.update(0.001, HOME, STILL)
    assert command.rate_limited
    assert np.allclose(command.torque, wanted * 0.1 / np.abs(wanted).max())
    for k in range(2, 400):
        command = controller.update(0.001 * k, HOME, STILL)
    assert not command.rate_limited
    assert np.allclose(command.torque, wanted)


@pytest.mark.parametrize("reaction", ["none", "hold", "float"])
def test_a_collision_is_survived(model: Model, reaction: str) -> None:
    """A link runs into a ball of 100 N/mm at 0.8 rad/s; the flag comes 5 ms after the touch."""
    loop = Loop(model, contact_reaction=reaction)
    swung = HOME + [0.6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ball = Sphere(tuple(frame_placement(model, swung, "link_6")[:3, 3]), 0.05, 1e5, 200.0)
    loop.arm = SimulatedArm(model, replace(loop.arm.parameters, command_delay=1), [ball])
    loop.follow(HOME + [1.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 1.2)
    touched = [False] * 5

    def flag(command: Command) -> None:
        touched.append(loop.arm.in_contact)
        loop.controller.contact(touched[-5])

    command = loop.run(3.0, flag)
    assert any(touched)
    # The wrist recoils faster than its speed limits; where that lasts it is a fault.
    if command.mode == "safe":
        assert "too fast" in command.reason
    else:
        assert command.mode == ("hold" if reaction == "none" else reaction)
    # Saturated and pressed hard for a while, then at rest again: no limit cycle, little force.
    assert np.abs(loop.arm.v).max() < 0.02
    assert np.linalg.norm(loop.arm.contact_force) < 50.0


# --- Faults --------------------------------------------------------------------------------------


def assert_zero(command: Command | None) -> None:
    assert command is not None
    assert command.mode == "safe"
    assert not command.torque.any()


def test_silence_is_safe_and_latched(model: Model) -> None:
    controller = PassivityController(model)
    controller.start(1e9, HOME, STILL, now=10.0)
    assert controller.silence(10.04) is None
    command = controller.silence(10.06)
    assert_zero(command)
    assert command is not None
    assert command.reason == "no joint states for 0.06 s"
    with pytest.raises(InputError, match="no good joint states"):
        controller.resume()
    back = controller.update(1e9 + 1.0, HOME, STILL, now=11.0)
    assert back.mode == "safe"
    with pytest.raises(TrajectoryError, match="no joint states for"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])
    with pytest.raises(InputError, match="resume first"):
        controller.hold()
    assert controller.resume() == "holding here"
    assert controller.update(1e9 + 1.001, HOME, STILL, now=11.001).mode == "hold"


def test_a_gap_between_stamps_is_silence(model: Model) -> None:
    controller = started(model)
    assert controller.update(0.04, HOME, STILL).mode == "hold"
    command = controller.update(0.14, HOME, STILL)
    assert (command.mode, command.reason) == ("safe", "no joint states for 0.1 s")


def test_a_clock_that_jumps_forward_is_safe(model: Model) -> None:
    """[26] Whatever the joints did meanwhile, the trajectory does not leap."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL, now=50.0)
    command = controller.update(60.0, HOME, STILL, now=50.001)
    assert (command.mode, command.reason) == ("safe", "stamps jumped by 60 s")


def test_a_pause_of_the_process_is_silence(model: Model) -> None:
    """Its queue was filled meanwhile, so that stamps go on without a gap."""
    controller = PassivityController(model)
    controller.start(0.0, HOME, STILL, now=50.0)
    assert controller.update(0.001, HOME, STILL, now=50.001).mode == "hold"
    command = controller.update(0.002, HOME, STILL, now=50.101)
    assert (command.mode, command.reason) == ("safe", "no joint states for 0.1 s")


@pytest.mark.parametrize(
    ("q", "v", "why"),
    [
        (HOME, None, "no velocity"),
        (np.full(7, np.nan), STILL, "not finite"),
        (HOME, np.full(7, np.inf), "not finite"),
        (HOME + 0.5, STILL, "joint_1 jumped by 0.5"),
        (HOME, np.full(7, 16.0), "joint_1 at a speed of 16 is implausible"),
        (HOME[:3], STILL, "7 joints"),
    ],
)
def test_unusable_samples_are_a_fault_after_a_few(model: Model, q: Any, v: Any, why: str) -> None:
    controller = started(model)
    good = controller.update(0.001, HOME, STILL)
    for k in range(4):
        command = controller.update(0.002 + 0.001 * k, q, v)
        assert command.mode == "hold"
        assert why in command.reason
        assert np.array_equal(command.torque, good.torque)
    command = controller.update(0.006, q, v)
    assert_zero(command)
    assert why in command.reason


def test_one_unusable_sample_is_passed_over(model: Model) -> None:
    controller = started(model)
    for k in range(1, 50):
        controller.update(0.001 * k, HOME + (0.5 if k % 5 == 0 else 0.0), STILL)
    command = controller.update(0.05, HOME, STILL)
    assert (command.mode, command.reason) == ("hold", "")


def test_a_clock_set_back_does_not_move_the_arm(model: Model) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)])
    before = controller.update(0.01, HOME, STILL)
    after = controller.update(-5.0, HOME, STILL)
    assert np.array_equal(after.q_d, before.q_d)
    assert np.all(controller.update(-4.99, HOME, STILL).q_d > before.q_d)


def test_a_clock_that_went_back_ends_the_trajectory_where_the_arm_is(model: Model) -> None:
    """[25] Simulators that start again put the arm elsewhere, too."""
    loop = Loop(model, tank_capacity=5.0)
    loop.follow(HOME + 0.3, 1.0)
    loop.run(0.5)
    controller = loop.controller
    level = controller.law.tank.level
    controller.clock_went_back()
    command = controller.update(-5.0, HOME - 0.4, STILL, now=0.502)
    assert (command.mode, command.goal, command.reason) == ("hold", "cancelled", "")
    assert np.array_equal(command.q_d, HOME - 0.4)
    assert controller.balance() is None  # none over a jump
    controller.update(-4.999, HOME - 0.4, STILL, now=0.503)
    assert controller.law.tank.level == pytest.approx(level, abs=0.01)  # the jump was no work
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME, time_from_start=1.0)])
    assert controller.update(-4.998, HOME - 0.4, STILL, now=0.504).mode == "follow"


def test_after_the_clock_was_set_any_stamp_will_do(model: Model) -> None:
    """Later samples count as well; the gap before them is a fault nevertheless."""
    controller = started(model)
    for stamp, now, mode in ((60.0, 0.001, "hold"), (-5.0, 0.2, "safe")):
        controller.clock_went_back()
        assert controller.update(stamp, HOME, STILL, now).mode == mode


@pytest.mark.parametrize("order", ["hold", "float_", "fault"])
def test_a_clock_that_went_back_resumes_nothing(model: Model, order: str) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)])
    controller.update(0.01, HOME, STILL, now=0.01)
    getattr(controller, order)("somebody wants it")
    controller.clock_went_back()
    with pytest.raises(InputError, match="no good joint states"):
        controller.resume()
    after = controller.update(-5.0, HOME, STILL, now=0.02)
    assert after.mode == {"hold": "hold", "float_": "float", "fault": "safe"}[order]
    assert (after.goal, after.reason) == ("cancelled", "somebody wants it")
    assert np.array_equal(after.q_d, HOME)
    with pytest.raises(TrajectoryError, match="resume first"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])


def test_a_bad_sample_after_new_parameters_is_passed_over(model: Model) -> None:
    controller = started(model)
    controller.update(0.001, HOME, STILL)
    controller.update(0.002, HOME, STILL)
    controller.set_parameters(replace(NO_RATE, bandwidth=(30.0,)))
    controller.update(0.003, np.full(7, np.nan), STILL)
    assert controller.balance() is None


def test_the_model_raising_is_safe(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = started(model)

    def broken(*arguments: Any) -> None:
        raise RuntimeError("out of cheese")

    monkeypatch.setattr(SlotineLiController, "step", broken)
    command = controller.update(0.001, HOME, STILL)
    assert_zero(command)
    assert command.reason == "the controller failed: RuntimeError: out of cheese"
    monkeypatch.setattr(SafeTorque, "torque", broken)
    again = controller.update(0.002, HOME, STILL)
    assert_zero(again)
    assert again.reason == command.reason


def test_a_motion_that_raises_is_safe(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = started(model)

    def broken(*arguments: Any) -> None:
        raise ValueError("no motion")

    monkeypatch.setattr(Motion, "advance", broken)
    command = controller.update(0.001, HOME, STILL)
    assert_zero(command)
    assert command.reason == "the controller failed: ValueError: no motion"


@pytest.mark.parametrize("effort", [np.nan, np.inf, 1e308])
def test_efforts_that_cannot_be_are_no_energy(model: Model, effort: float) -> None:
    controller = started(model)
    for k in range(1, 4):
        controller.update(0.001 * k, HOME, np.full(7, 1.0))
        balance = controller.balance(np.full(7, effort))
        assert balance is None or k == 1
    controller.update(0.004, HOME, STILL)
    assert controller.balance(STILL) is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_torque_that_is_not_finite_is_never_sent(
    model: Model, monkeypatch: pytest.MonkeyPatch, bad: float
) -> None:
    controller = started(model)
    torque = LawTorque(np.full(7, bad), STILL, STILL)
    monkeypatch.setattr(SlotineLiController, "step", lambda *arguments: torque)
    assert_zero(controller.update(0.001, HOME, STILL))


EVENTS = st.sampled_from(
    ["good", "gap", "back", "same", "nan", "no velocity", "jump", "fast", "silence", "trajectory"]
    + ["bad trajectory", "hold", "float", "resume", "contact", "release"]
)


@settings(max_examples=60, deadline=None)
@given(events=st.lists(EVENTS, max_size=60), seed=st.integers(0, 2**16))
def test_whatever_happens_the_torque_is_finite_and_within_limits(
    model: Model, events: list[str], seed: int
) -> None:
    random = np.random.default_rng(seed)
    controller = started(model, ControllerParameters())
    stamp, q, v = 0.0, HOME, STILL
    now = 0.0  # of a steady clock, which stamps may leave behind
    for event in events:
        now += 0.001
        stamp += {"gap": 1.0, "back": -3.0, "same": 0.0}.get(event, 0.001)
        q = q + 1e-3 * v + (3.0 if event == "jump" else 0.0)
        v = random.uniform(-1.0, 1.0, 7) * (90.0 if event == "fast" else 1.0)
        position = np.full(7, np.nan) if event == "nan" else q
        try:
            if event in ("trajectory", "bad trajectory"):
                point = TrajectoryPoint(HOME + (0.2 if event == "trajectory" else 9.0), (), (), 1.0)
                controller.set_trajectory(model.joint_names, [point])
            elif event in ("hold", "float", "resume"):
                {
                    "hold": controller.hold,
                    "float": controller.float_,
                    "resume": controller.resume,
                }[event]()
            elif event in ("contact", "release"):
                controller.contact(event == "contact")
        except (InputError, TrajectoryError):
            pass
        if event == "silence":
            now += 1.0
            command = controller.silence(now)
            assert_zero(command)
        else:
            velocity = None if event == "no velocity" else v
            command = controller.update(stamp, position, velocity, now)
        assert command is not None
        assert np.isfinite(command.torque).all()
        assert np.all(np.abs(command.torque) <= model.effort_limit)


# --- Parameters ----------------------------------------------------------------------------------


def test_changed_parameters_apply_and_bad_ones_leave_the_old(model: Model) -> None:
    controller = started(model)
    moved = HOME + 0.01
    before = controller.update(0.001, moved, STILL).torque
    with pytest.raises(ParameterError, match="torque_rate has 2 values"):
        controller.set_parameters(replace(NO_RATE, bandwidth=(9.0,), torque_rate=(1.0, 2.0)))
    assert controller.parameters == NO_RATE
    assert np.allclose(controller.update(0.002, moved, STILL).torque, before)
    controller.set_parameters(replace(NO_RATE, bandwidth=(9.0,)))
    assert not np.allclose(controller.update(0.003, moved, STILL).torque, before)


def test_changed_parameters_neither_fill_the_tank_nor_forget(model: Model) -> None:
    """What was learned carries the arm in float, too, at once."""
    loop = Loop(model, adaptive=True, tank_capacity=5.0)
    loop.arm = SimulatedArm(
        model.with_payload("link_7", 2.0, [0.0, 0.0, 0.05], np.eye(3) * 1e-3), loop.arm.parameters
    )
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.5)
    controller = loop.controller
    tank, learned = controller.law.tank, controller.law.adaptive
    assert learned is not None
    assert abs(learned.payload) > 0.1
    for change in ({"bandwidth": (30.0,)}, {"goal_time": 2.0}, {"tank_capacity": 9.0}):
        level = controller.law.tank.level
        assert level < 4.9
        controller.set_parameters(replace(controller.parameters, **change))
        assert controller.law.tank is not tank
        assert controller.law.tank.level == level
    assert controller.law.adaptive is not None
    assert controller.law.adaptive.payload == pytest.approx(learned.payload)
    controller.float_()
    controller.set_parameters(replace(controller.parameters, tank_capacity=0.1))
    assert controller.law.tank.level == pytest.approx(0.1)
    weight = gravity_torque(controller.law.adaptive.model, loop.arm.q)
    assert not np.allclose(weight, gravity_torque(model, loop.arm.q), atol=0.5)
    assert np.allclose(controller.law.floating_torque(loop.arm.q, loop.arm.v), weight)
