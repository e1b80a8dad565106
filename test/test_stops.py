"""Every order stops the arm in time, from every mode; pace is a property of trajectories only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from control_loop import HOME, STILL, Loop, give, started

from rbd_control.control import Command, ControllerParameters, TrajectoryPoint
from rbd_control.dynamics import Model, frame_placement
from rbd_control.errors import InputError
from rbd_control.simulation import arm7_urdf

STOP_TIME = 0.1
HALF_RATE = {"rate": 500.0}
"""For the many combinations of situations and orders, in half the time of the usual 1 kHz."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# --- What the arm is doing when it is told to stop -----------------------------------------------


def _follow(loop: Loop) -> None:
    loop.follow(HOME + 0.4, 2.0)
    loop.run(0.8)


def _slowed(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("slow")
    loop.run(0.3)


def _slowing(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("slow")
    loop.run(0.05)


def _streaming(loop: Loop) -> None:
    for k in range(30):
        loop.controller.set_trajectory(
            loop.controller.model.joint_names,
            [TrajectoryPoint(HOME + 0.01 * k, time_from_start=0.1)],
        )
        loop.run(0.02)


def _stopping(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("hold")
    loop.run(0.03)


def _paused(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("hold")
    loop.run(0.5)


def _retracting(loop: Loop) -> None:
    _follow(loop)
    loop.controller.set_contact_force("link_7", np.array([0.0, 20.0, 30.0]))
    loop.controller.modes.order("retract")
    loop.run(STOP_TIME + 0.2)
    assert np.abs(loop.arm.v).max() > 0.1


def _slowed_retracting(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("slow")
    loop.run(0.2)
    loop.controller.set_contact_force("link_7", np.array([0.0, 20.0, 30.0]))
    loop.controller.modes.order("retract")
    loop.run(STOP_TIME + 0.2)
    assert np.abs(loop.arm.v).max() > 0.1


def _resting(loop: Loop) -> None:
    loop.run(0.2)


def _reached(loop: Loop) -> None:
    loop.follow(HOME + 0.1, 0.5)
    assert loop.run(1.0).goal == "reached"


def _resumed(loop: Loop) -> None:
    _paused(loop)
    loop.controller.resume()
    loop.run(0.3)


def _floating(loop: Loop) -> None:
    _follow(loop)
    loop.controller.modes.order("float")
    loop.run(0.05)


SITUATIONS = (
    _follow, _slowed, _slowing, _streaming, _stopping, _paused, _retracting, _slowed_retracting,
    _resting, _reached, _resumed, _floating,
)  # fmt: skip
ORDERS = ("hold", "cancel", "float", "retract", "contact hold", "contact float", "contact retract")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda f: f.__name__.strip("_"))
def test_at_rest_within_stop_time(
    model: Model, situation: Callable[[Loop], None], order: str
) -> None:
    """The desired motion, in real time; the arm soon after it."""
    word, _, reaction = order.partition(" ")
    loop = Loop(
        model, simulated=HALF_RATE, contact_reaction=reaction or "none", stop_time=STOP_TIME
    )
    situation(loop)
    mode, goal = loop.controller.mode, loop.controller.modes.outcome.goal
    if word == "contact":
        loop.controller.contact(True)
    else:
        nothing = word == "cancel" and goal not in ("moving", "paused")
        if nothing and situation not in (_retracting, _slowed_retracting):
            with pytest.raises(InputError, match="no trajectory to cancel"):
                loop.controller.modes.cancel()
            assert loop.controller.mode == mode
            return
        give(loop.controller, word)
    # The retreat that an order to retract leads to, or leads to anew, is left out.
    loop.controller.verdict.forget_force()
    before = loop.arm.q
    states: list[Command] = []
    loop.run(STOP_TIME + 0.01, states.append)
    end = states[-1]
    if word == "float" or reaction == "float" or mode == "float":
        if word in ("hold", "retract"):
            assert end.mode == "hold"
        else:
            assert end.mode == "float"
            return
    assert end.mode == "hold"
    assert not end.v_d.any()
    final = end.q_d
    held: list[Command] = []
    loop.run(0.3, held.append)
    assert all(np.array_equal(state.q_d, final) for state in held)
    assert np.abs(loop.arm.v).max() < 0.05
    # Held where it was, but for the way of the stop, 4/27 of the speed times its time.
    assert np.abs(loop.arm.q - before).max() < 0.05
    if word == "cancel":
        assert end.goal == "cancelled"
    else:
        loop.controller.contact(False)
        assert loop.controller.resume()


def test_hold_while_retracting_really_holds(model: Model) -> None:
    """A former version answered success and moved on by 0.34 rad."""
    loop = Loop(model, retract_distance=0.3, retract_time=2.0)
    loop.controller.set_contact_force("link_7", np.array([0.0, 10.0, 0.0]))
    loop.controller.modes.order("retract")
    loop.run(0.6)
    assert np.abs(loop.arm.v).max() > 0.02
    loop.controller.modes.order("hold")
    loop.run(STOP_TIME)
    here = loop.arm.q
    command = loop.run(1.0)
    assert (command.mode, command.reason) == ("hold", "held by request")
    assert np.abs(loop.arm.q - here).max() < 0.02


@pytest.mark.parametrize("pause", [0.05, 0.3, 1.0])
def test_a_second_contact_while_retracting_is_not_ignored(model: Model, pause: float) -> None:
    """The arm stops and retracts along the new force: while stopping, moving and at rest."""
    loop = Loop(model, contact_reaction="retract", retract_distance=0.1, retract_time=0.6)
    up, aside = np.array([0.0, 0.0, 10.0]), np.array([0.0, 10.0, 0.0])
    loop.follow(HOME + 0.3, 2.0)
    loop.run(0.5)
    loop.controller.set_contact_force("link_7", up)
    loop.controller.contact(True)
    loop.run(pause)
    loop.controller.contact(False)
    loop.controller.set_contact_force("link_7", aside)
    before = frame_placement(model, loop.arm.q, "link_7")[:3, 3]
    loop.controller.contact(True)
    stopped = loop.run(STOP_TIME + 0.002)
    if pause > 0.05:
        assert np.abs(stopped.v_d).max() < 1e-3  # the new retreat begins from rest
    command = loop.run(1.5, lambda command: loop.controller.contact(False))  # it has ended
    moved = frame_placement(model, loop.arm.q, "link_7")[:3, 3] - before
    assert command.reason == "contact: retracted along the force on link_7"
    assert moved[1] > 0.06


def test_a_second_contact_at_rest_holds_where_the_arm_has_got_to(model: Model) -> None:
    """The arm does not press against a contact that pushes it away."""
    loop = Loop(model, contact_reaction="hold")
    loop.run(0.1)
    loop.controller.contact(True)
    loop.run(0.3)
    loop.controller.contact(False)
    loop.arm.push("link_4", (0.0, 80.0, 0.0), duration=0.5)
    command = loop.run(0.3)
    away = np.abs(loop.arm.q - command.q_d).max()
    assert away > 0.005
    loop.controller.contact(True)
    command = loop.run(STOP_TIME + 0.002)
    assert np.abs(command.q_d - HOME).max() > 0.5 * away


def test_orders_in_a_row_do_not_put_the_rest_off(model: Model) -> None:
    loop = Loop(model, contact_reaction="hold")
    _follow(loop)
    for k in range(10):
        loop.controller.modes.order("hold") if k % 2 else loop.controller.contact(k % 4 == 0)
        command = loop.run(0.0101)
    assert not loop.run(0.001).v_d.any()
    assert command.mode == "hold"


def test_a_trajectory_after_a_slow_stop_is_slow_without_a_jump(model: Model) -> None:
    """The slow time scale outlasts a stop; the next motion begins with the present speed."""
    loop = Loop(model, slow_factor=0.25)
    _follow(loop)
    loop.controller.modes.order("slow")
    loop.run(0.3)
    loop.controller.modes.cancel()
    loop.run(0.03)
    states: list[Command] = [loop.run(0.001)]
    loop.follow(HOME + 0.2, 1.0)
    loop.run(0.5, states.append)
    assert states[-1].reason == "slowed"
    assert states[-1].goal == "moving"
    steps = np.abs(np.diff([state.v_d for state in states], axis=0))
    assert steps.max() < 0.02
    assert loop.run(5.0).goal == "reached"


def test_a_trajectory_that_waits_for_its_begin_is_stopped_too(model: Model) -> None:
    controller = started(model)
    planned = controller.plan_trajectory(
        model.joint_names, [TrajectoryPoint(HOME + 0.3, time_from_start=1.0)], lead=0.05
    )
    controller.accept(planned)
    controller.update(0.001, HOME, STILL)
    controller.modes.order("hold")
    for k in range(2, 300):
        command = controller.update(0.001 * k, HOME, STILL)
        assert (command.mode, command.goal) == ("hold", "paused")
        assert np.array_equal(command.q_d, HOME)
    assert controller.resume() == "following the trajectory again"
    controller.modes.fault("test")
    controller.update(0.3, HOME, STILL)
    controller.resume()
    for k in range(301, 500):
        command = controller.update(0.001 * k, HOME, STILL)
    assert (command.mode, command.goal) == ("hold", "cancelled")
    assert np.array_equal(command.q_d, HOME)


@pytest.mark.parametrize("stop_time", [0.03, 0.1, 0.5])
def test_a_stop_takes_the_time_that_is_set(model: Model, stop_time: float) -> None:
    loop = Loop(model, stop_time=stop_time)
    _follow(loop)
    loop.controller.modes.order("hold")
    assert loop.run(0.9 * stop_time).v_d.any()
    assert not loop.run(0.1 * stop_time + 0.002).v_d.any()


def test_cancel_gives_up_a_paused_trajectory_and_stays_latched(model: Model) -> None:
    controller = started(model, ControllerParameters())
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.3, (), (), 1.0)])
    controller.update(0.001, HOME, STILL)
    controller.modes.order("hold")
    controller.modes.cancel()
    command = controller.update(0.002, HOME, STILL)
    assert (command.mode, command.goal, command.reason) == ("hold", "cancelled", "held by request")
    with pytest.raises(InputError, match="no trajectory to cancel: in hold"):
        controller.modes.cancel()
    assert controller.resume() == "holding here"
