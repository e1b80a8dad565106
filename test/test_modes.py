"""Modes of the controller: hold, follow, float, and the reactions to contact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from control_loop import HOME, STILL, Loop, started

from rbd_control.control import (
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


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
    loop.controller.modes.order("hold")
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


def test_orders_to_resume_do_not_let_an_arm_sag(model: Model) -> None:
    """Each took the position to which an unknown payload had pulled the arm as the desired one."""
    loop = Loop(model)
    loaded = model.with_payload("tool", 3.0, np.zeros(3), 0.01 * np.eye(3))
    loop.arm = SimulatedArm(
        loaded, SimulationParameters(initial_position=tuple(HOME), coulomb=(0.0,))
    )
    loop.run(1.0)
    before = loop.arm.q
    for _ in range(20):
        loop.controller.modes.order("hold")
        loop.run(0.2)
        assert loop.controller.resume() == "holding here"
        loop.run(0.2)
    assert np.abs(loop.arm.q - before).max() < 0.005


def test_float_yields_to_a_push_and_forgets_the_trajectory(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.5, 2.0)
    loop.run(0.2)
    loop.controller.modes.order("float")
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


def test_a_trajectory_does_not_go_on_from_where_contacts_have_moved_the_arm(model: Model) -> None:
    """Each contact held it where it had been pushed to, and it swept back over the whole way."""
    loop = Loop(model, contact_reaction="hold")
    loop.follow(HOME + 0.5, 2.0)
    loop.run(0.8)
    for k in range(6):
        loop.controller.contact(True)
        loop.run(0.2)
        loop.controller.contact(False)
        loop.run(0.2)
        if k < 5:
            loop.arm.push("link_5", (0.0, 60.0, 0.0), duration=0.4)
            loop.run(0.4)
    assert loop.run(0.5).goal == "paused"
    assert "from the position where it stopped" in loop.controller.resume()
    assert loop.run(0.1).goal == "cancelled"


def test_a_retreat_after_further_contacts_does_not_make_their_place_the_first(
    model: Model,
) -> None:
    loop = Loop(model, contact_reaction="retract")
    loop.follow(HOME + 0.5, 2.0)
    loop.run(0.8)
    loop.controller.contact(True)  # no force is known: it stays where it stopped
    loop.run(0.4)
    loop.controller.contact(False)
    for _ in range(5):
        loop.arm.push("link_5", (0.0, 60.0, 0.0), duration=0.4)
        loop.run(0.4)
        loop.controller.contact(True)
        loop.run(0.2)
        loop.controller.contact(False)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    loop.controller.modes.order("retract")
    loop.run(1.0)
    assert "from the position where it stopped" in loop.controller.resume()


def test_slow_is_not_lost_while_the_arm_is_held(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(0.4)
    loop.controller.modes.order("hold")
    loop.run(0.3)
    loop.controller.modes.order("slow")
    assert loop.controller.resume() == "following the trajectory again, slowly"
    assert loop.run(1.5).goal == "moving"
    assert loop.controller.resume() == "at full speed"
    assert loop.run(2.0).goal == "reached"


def test_a_trajectory_that_begins_in_contact_is_slow_if_the_reaction_is(model: Model) -> None:
    loop = Loop(model, contact_reaction="slow")
    loop.controller.modes.order("float")
    for _ in range(10):
        loop.controller.contact(True)
        loop.run(0.02)
    loop.controller.resume()
    loop.follow(HOME + 0.3, 1.0)
    loop.run(0.3)
    assert loop.run(1.0).goal == "moving"
    assert loop.controller.resume() == "at full speed"


def test_a_retreat_that_waits_for_its_force_ends_with_resume(model: Model) -> None:
    """The force came after the order to resume, and moved the arm by 5 cm."""
    loop = Loop(model, stop_time=0.05)
    loop.controller.modes.order("retract")
    loop.run(0.055)
    assert loop.controller.resume() == "holding here"
    here = loop.arm.q
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    loop.run(0.5)
    assert np.abs(loop.arm.q - here).max() < 2e-3
