"""Reactions to contact and other orders, on the simulated arm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL, Loop, rigid, started
from urdf_texts import BODY, arm, joint

from rbd_control.control import Command, ControllerParameters, TrajectoryPoint
from rbd_control.control.limits import SoftLimits
from rbd_control.control.reactions import LEAST_SHARE, retreat
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.dynamics import (
    Model,
    frame_jacobian,
    frame_placement,
    gravity_torque,
    kinetic_energy,
)
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.simulation import HalfSpace, SimulatedArm, arm7_urdf

REACTIONS = ("hold", "float", "retract", "slow")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def tip(model: Model, q: np.ndarray) -> np.ndarray:
    return frame_placement(model, q, "link_7")[:3, 3]


def moving(model: Model, **parameters: Any) -> Loop:
    loop = Loop(model, **parameters)
    loop.follow(HOME + 0.4, 2.0)
    loop.run(0.5)
    return loop


@pytest.mark.parametrize("reaction", REACTIONS)
def test_a_reaction_begins_with_the_next_sample_and_lasts_until_resumed(
    model: Model, reaction: str
) -> None:
    loop, other = (moving(model, contact_reaction=r) for r in (reaction, "none"))
    loop.controller.contact(True)
    other.controller.contact(True)
    command, unmoved = loop.run(0.001), other.run(0.001)
    assert command.reason == "contact"
    assert unmoved.reason == ""
    assert not np.array_equal(command.torque, unmoved.torque)
    assert command.mode == {"float": "float", "slow": "follow"}.get(reaction, "hold")
    loop.controller.contact(False)
    assert loop.run(0.2).reason.startswith("contact")
    loop.controller.resume()
    assert loop.run(0.001).reason == ""


@pytest.mark.parametrize("axes", ["world", "link"])
def test_retracts_along_the_force_and_stays(model: Model, axes: str) -> None:
    loop = moving(model, contact_reaction="retract", retract_distance=0.06)
    force = np.array([0.0, 12.0, 16.0])
    loop.controller.contact(True)
    loop.run(0.05)
    # The estimate may come later than the flag.
    if axes == "world":
        loop.controller.set_contact_force("link_7", force)
    else:
        rotation = frame_placement(model, loop.arm.q, "link_7")[:3, :3]
        loop.controller.set_contact_force("link_7", force @ rotation, in_frame=True)
    loop.run(0.05)
    before = tip(model, loop.arm.q)
    speeds = []

    def each(command: Command) -> None:
        loop.controller.contact(False)
        speeds.append(np.abs(loop.arm.v).max())

    command = loop.run(1.0, each)
    assert command.reason == "contact: retracted along the force on link_7"
    assert command.mode == "hold"
    moved = tip(model, loop.arm.q) - before
    along = moved @ force / np.linalg.norm(force)
    # The damped inverse falls short, and friction keeps the arm off its goal, by a centimetre.
    assert 0.045 < along < 0.07
    assert np.linalg.norm(moved) < 0.075
    assert max(speeds) < 1.0
    assert loop.controller.resume() == "following the trajectory again"
    assert loop.run(4.0).goal == "reached"


def test_without_a_fresh_force_it_stays_where_it_stopped(model: Model) -> None:
    loop = moving(model, contact_reaction="retract")
    loop.controller.set_contact_force("link_7", np.array([0.0, 10.0, 0.0]))
    loop.run(0.5)
    loop.controller.contact(True)
    for in_frame in (False, True):
        tell = partial(loop.controller.set_contact_force, in_frame=in_frame)
        tell("no such link", np.array([0.0, 10.0, 0.0]))
        for nonsense in ((0.0, 0.0, 0.0), (np.nan, 1.0, 0.0), (np.inf, 1.0, 0.0), (1.5e308,) * 3):
            tell("link_7", np.array(nonsense))
    command = loop.run(0.2)
    here = loop.arm.q
    command = loop.run(0.5)
    assert command.reason == "contact: not retracted, because no contact force is known"
    assert np.abs(loop.arm.q - here).max() < 5e-3


def test_waits_for_the_force_after_a_stop_shorter_than_a_sample(model: Model) -> None:
    """The force of the sample that raises the flag counts from the next torque on."""
    loop = moving(model, contact_reaction="retract", stop_time=1e-4)
    loop.controller.contact(True)
    assert loop.run(0.001).reason == "contact"
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    assert loop.run(0.001).reason == "contact: retracted along the force on link_7"


REACHED = np.array([0.0, 0.9, 0.0, -0.9, 0.0, 0.9, 0.0])


def pressed(model: Model, verdict: Callable[[float], bool | None]) -> tuple[np.ndarray, Command]:
    """Let the arm retract while its tool is clamped; return the forces [N] and the last command.

    Args:
        model: the arm.
        verdict: what the detector says at a time since the contact began [s]; None is silence.
    """
    parameters = ControllerParameters(contact_reaction="retract", **SCRIPTED)
    controller = started(model, parameters, REACHED)
    controller.contact(True)
    controller.set_contact_force("tool", np.array([10.0, 0.0, 0.0]))
    weight = gravity_torque(model, REACHED)
    J, torques = frame_jacobian(model, REACHED, "tool")[3:], []
    for k in range(1, 1500):
        said = verdict(0.001 * k)
        if k % 20 == 0 and said is not None:
            controller.contact(said, 0.001 * k)
        command = controller.update(0.001 * k, REACHED, STILL)
        torques.append(command.torque - weight)
    forces = np.linalg.lstsq(J.T, np.array(torques).T, rcond=None)[0]
    return np.linalg.norm(forces, axis=0), command


@pytest.mark.parametrize("ends", [np.inf, 0.05], ids=["the flag stays", "silence"])
def test_a_retreat_that_is_blocked_does_not_press_on(model: Model, ends: float) -> None:
    """It pressed with 475 N until somebody gave an order."""
    forces, command = pressed(model, lambda t: True if t < ends else None)
    assert forces.max() < 300.0
    assert forces[400:].max() < 1.0
    assert command.reason.endswith("and stopped: the arm cannot move away")


def test_a_silent_detector_ends_a_retreat(model: Model) -> None:
    """Nobody knows whether the arm is free."""
    loop = moving(model, contact_reaction="retract", retract_time=1.5)
    loop.controller.contact(True)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    loop.run(0.2)
    loop.controller.contact(False)
    assert "stopped" not in loop.run(0.45).reason
    command = loop.run(0.2)
    assert ", and stopped: no verdict about contact for 0.5 s" in command.reason
    assert np.abs(loop.arm.v).max() < 0.05


def test_a_retreat_by_request_needs_no_detector(model: Model) -> None:
    """Of one that was silent before, nothing is expected."""
    loop = moving(model)
    loop.controller.contact(False)
    loop.run(1.0)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    loop.controller.modes.order("retract")
    command = loop.run(1.0)
    assert command.reason == "retracting by request: retracted along the force on link_7"


def test_a_contact_that_goes_with_the_arm_ends_a_retreat(model: Model) -> None:
    """Somebody holds on to it, or its direction was wrong."""
    loop = moving(model, contact_reaction="retract", retract_time=1.5)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    command = loop.run(1.0, lambda command: loop.controller.contact(True))
    assert command.reason.endswith("and stopped: the contact has lasted for 0.5 s")
    # Again while it is held: the flag has not fallen, and the arm stays.
    command = loop.run(0.5, lambda command: loop.controller.contact(True))
    assert command.mode == "hold"
    assert np.abs(loop.arm.v).max() < 0.01


def test_no_retreat_leads_where_the_motors_cannot_hold_the_arm(model: Model) -> None:
    """A trajectory to such a posture is refused, too."""
    share = 1.03 * np.abs(gravity_torque(model, REACHED))[1] / model.effort_limit[1]
    loop = Loop(
        model,
        REACHED,
        contact_reaction="retract",
        retract_distance=0.1,
        torque_share=(share,),
    )
    loop.run(0.1)
    loop.controller.contact(True)
    loop.controller.set_contact_force("tool", np.array([10.0, 0.0, 0.0]))
    command = loop.run(1.0, lambda command: loop.controller.contact(True))
    assert "cannot retract along the force on tool: too heavy: joint_2" in command.reason
    assert command.mode == "hold"
    assert np.abs(loop.arm.q - REACHED).max() < 0.05


WALL = HalfSpace((0.0, 0.1, 0.0), (0.0, -1.0, 0.0), stiffness=3000.0, damping=20.0)


@pytest.mark.parametrize("reaction", ["none", "hold", "float"])
def test_energy_injected_after_a_collision_is_bounded(model: Model, reaction: str) -> None:
    """The true work on a wall is bounded, with a contact flag that comes 5 ms late.

    With the tank the bound is kinetic energy, content of the tank and its refill. In modes hold and
    float the bound is the kinetic energy even without tank.
    """
    before, beyond = HOME + [-0.6, 0.5, 0, 0.6, 0, -0.4, 0], HOME + [0.9, 0.5, 0, 0.6, 0, -0.4, 0]

    def collide(capacity: float) -> tuple[float, float]:
        loop = Loop(model, before, contact_reaction=reaction, tank_capacity=capacity)
        loop.arm = SimulatedArm(model, loop.arm.parameters, [WALL])
        loop.follow(beyond, 1.2)
        law, touched, last = loop.controller.law, [False] * 5, loop.arm.q
        work = most = promise = 0.0

        def account(command: Command) -> None:
            nonlocal work, most, promise, last
            if loop.arm.in_contact and not any(touched):
                promise = float(kinetic_energy(model, last, loop.arm.v)) + max(law.tank.level, 0.0)
            touched.append(loop.arm.in_contact)
            loop.controller.contact(touched[-6])
            work -= float(loop.arm.external_torque @ (loop.arm.q - last))
            most, last = max(most, work), loop.arm.q
            if any(touched) and capacity:
                promise += 1e-3 * loop.controller.parameters.tank_refill

        loop.run(2.0, account)
        assert any(touched)
        return most, promise

    most, promise = collide(2.0)
    assert 0.1 < most <= promise
    most, promise = collide(0.0)
    assert most > promise if reaction == "none" else most <= promise


@pytest.mark.parametrize("force", [1e-200, 1e200])
def test_the_direction_of_a_force_is_enough_to_retract(model: Model, force: float) -> None:
    controller = started(model, ControllerParameters(contact_reaction="retract", **SCRIPTED))
    controller.set_contact_force("link_7", np.array([0.0, 0.0, force]))
    controller.contact(True)
    for k in range(1, 700):
        controller.contact(False, 0.001 * k)
        command = controller.update(0.001 * k, HOME, STILL)
    assert command.reason == "contact: retracted along the force on link_7"
    assert tip(model, command.q_d)[2] - tip(model, HOME)[2] > 0.04


def test_slows_down_evenly_and_gets_there_all_the_same(model: Model) -> None:
    loop = moving(model, contact_reaction="slow", slow_factor=0.25)
    before = loop.run(0.001)
    loop.controller.contact(True)
    speeds = []
    loop.run(0.3, lambda command: speeds.append(command.v_d[0]))
    change = np.abs(np.diff([before.v_d[0], *speeds]))
    assert change.max() < 0.02 * before.v_d[0]  # over stop_time, 100 samples: no jump
    assert speeds[-1] == pytest.approx(0.25 * speeds[0], rel=0.3)  # it also moves along its spline
    assert loop.run(1.0).goal == "moving"
    # What comes meanwhile goes slowly, too, and without a jump.
    loop.follow(HOME, 1.0)
    command = loop.run(0.001)
    assert command.reason == "slowed"
    assert loop.run(1.0).goal == "moving"
    assert loop.controller.resume() == "at full speed"
    assert loop.run(1.5).goal == "reached"


def test_cancel_stops_and_waits_for_the_next(model: Model) -> None:
    loop = moving(model)
    loop.controller.modes.cancel()
    here = loop.arm.q
    command = loop.run(0.4)
    assert (command.mode, command.goal, command.reason) == ("hold", "cancelled", "")
    assert np.abs(loop.arm.q - here).max() < 0.02
    with pytest.raises(InputError, match="no trajectory to cancel: in hold"):
        loop.controller.modes.cancel()
    loop.follow(HOME, 1.0)
    assert loop.run(1.5).goal == "reached"


@pytest.mark.parametrize("after", [0.001, 0.02, 0.09, 0.5])
def test_a_stop_may_be_resumed_before_it_is_over(model: Model, after: float) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.4, 4.0)
    loop.run(1.5)
    loop.controller.modes.order("hold")
    loop.run(after)
    assert loop.controller.resume() == "following the trajectory again"
    assert loop.run(8.0).goal == "reached"


def test_off_its_path_a_trajectory_is_aborted(model: Model) -> None:
    tolerance = (0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0)
    loop = moving(model, path_tolerance=tolerance, tracking_limit=(100.0,))
    loop.arm.push("link_7", (0.0, 0.0, -250.0), duration=0.5)
    command = loop.run(0.5)
    assert (command.mode, command.goal) == ("hold", "aborted")
    assert command.reason.startswith("joint_2 is 0.05")
    assert command.reason.endswith("from its path; its tolerance is 0.05")
    loop.run(0.5)
    loop.follow(HOME, 1.0)
    assert loop.run(1.5)[6:] == ("reached", "")


def test_an_arm_that_carries_itself_gets_the_rest(model: Model) -> None:
    """The command excludes gravity; limits apply to the sum of gravity torque and command."""
    parameters: dict[str, Any] = {"torque_rate": (1e9,), "torque_share": (0.5,)}
    plain = started(model, rigid(**parameters))
    without = started(model, rigid(gravity_compensated=True, **parameters))
    v = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, 1.0, 1.0])
    weight = gravity_torque(model, HOME)
    for k, speed in enumerate((STILL, 0.01 * v, v)):
        a, b = (c.update(0.001 * (k + 1), HOME, speed) for c in (plain, without))
        assert np.allclose(b.torque, a.torque - weight)
    assert a.saturated
    assert b.saturated
    plain.modes.order("float")
    without.modes.order("float")
    assert np.allclose(without.update(0.005, HOME, STILL).torque, 0.0, atol=1e-12)
    assert not without.silence(9.0).torque.any()


@pytest.mark.parametrize("lift", [3.0, -1.0])
def test_a_payload_does_not_make_the_command_of_an_arm_that_carries_itself_jump(
    model: Model, lift: float
) -> None:
    """The arm's own compensation changes with the payload: the right command stays the same."""

    def loaded(mass: float) -> Model:
        return model.with_payload("tool", mass, np.zeros(3), 0.01 * np.eye(3))

    parameters = ControllerParameters(gravity_compensated=True, torque_rate=(900.0,), **SCRIPTED)
    controller = started(loaded(1.5), parameters)
    for k in range(1, 50):
        before = controller.update(0.001 * k, HOME, STILL).torque
    controller.set_parameters(parameters, loaded(1.5 + lift))
    for k in range(50, 60):
        torque = controller.update(0.001 * k, HOME, STILL).torque
        assert np.allclose(torque, before, atol=1e-9)


@pytest.mark.parametrize("reaction", ["hold", "float", "retract"])
def test_no_trajectory_begins_or_continues_while_the_flag_is_raised(
    model: Model, reaction: str
) -> None:
    """Resumed with the flag raised, the arm would go on into whom it touches, unnoticed."""
    loop = moving(model, contact_reaction=reaction)
    controller = loop.controller
    controller.contact(True)
    loop.run(0.3)
    controller.contact(True)
    if reaction == "float":  # its trajectory is over: held where it is, the arm does not move
        assert controller.resume() == "holding here"
    else:
        with pytest.raises(InputError, match="reports contact; end the contact first"):
            controller.resume()
        controller.modes.cancel()
        assert controller.resume() == "holding here"
    for flag in (True, False):
        controller.contact(flag)
        loop.run(0.02)
        if flag:
            with pytest.raises(TrajectoryError, match="the contact detector reports contact"):
                loop.follow(HOME, 1.0)
    loop.follow(HOME, 1.0)
    assert loop.run(0.1).mode == "follow"


def test_a_contact_that_lasts_stops_an_arm_whose_reaction_becomes_to_stop(model: Model) -> None:
    loop = moving(model, contact_reaction="none")
    loop.controller.contact(True)
    assert loop.run(0.1).mode == "follow"
    loop.controller.set_parameters(ControllerParameters(contact_reaction="hold"))
    loop.controller.contact(True)
    assert loop.run(0.001).reason == "contact"


@pytest.mark.parametrize("stop_time", [0.1, 1.0])
def test_a_force_older_than_the_order_is_not_followed(model: Model, stop_time: float) -> None:
    """It may be 0.1 s older, however long the stop lasts that was in progress."""
    loop = moving(model, stop_time=stop_time)
    loop.controller.set_contact_force("link_7", np.array([0.0, 12.0, 16.0]))
    loop.run(0.06)
    loop.controller.modes.order("hold")
    loop.run(0.06)
    loop.controller.modes.order("retract")
    assert loop.run(stop_time + 0.1).reason.endswith("because no contact force is known")


def test_a_retreat_is_along_the_force_or_none_at_all(model: Model) -> None:
    """Joints at their limits turn the rest of the motion; one went 7 cm against the force."""
    soft = SoftLimits(model, ControllerParameters())
    random = np.random.default_rng(1)
    refused = 0
    for _ in range(600):
        q = random.uniform(soft.lowest, soft.highest)
        end = np.where(random.random(7) < 0.5, soft.lowest, soft.highest)
        q = np.where(random.random(7) < 0.3, end, q)
        link, force = model.joint_links[random.integers(2, 7)], random.normal(size=3)
        start = DesiredState.at_rest(q)
        try:
            way = retreat(model, soft.now(), start, link, force, 0.05, 0.5)
        except TrajectoryError:
            refused += 1
            continue
        origin, end = ways(model, link, q, way, force)
        if not (np.diff(origin) > 0.0).all():  # then it is computed for the other end of the link
            assert (np.diff(end) > 0.0).all()
            # The share of the distance is kept at eight points, of which four are looked at.
            assert origin.min() >= -LEAST_SHARE * 0.05 - 1e-9
    assert refused < 60


def ways(
    model: Model, link: str, q: np.ndarray, retreat: Trajectory, force: np.ndarray
) -> list[np.ndarray]:
    """Return the ways of both ends of a link along a force at five points of a retreat [m].

    The origin of the last link of the arm is both of its ends.
    """
    ends = (link, model.joint_links[min(model.joint_links.index(link) + 1, model.nv - 1)])
    passed = q + np.linspace(0, 1, 5)[:, None] * (retreat.final - q)
    places = [frame_placement(model, passed, each)[:, :3, 3] for each in ends]
    return [(place - place[0]) @ force / np.linalg.norm(force) for place in places]


@pytest.mark.parametrize("link", ["link_2", "link_3", "link_4"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_an_upper_arm_retracts_although_its_origin_lies_on_the_axes(
    model: Model, link: str, axis: int, sign: float
) -> None:
    """A force across an upper arm moves its far end; the joints do not move the origin."""
    force = np.zeros(3)
    force[axis] = 20.0 * sign
    way = retreat(model, model, DesiredState.at_rest(HOME), link, force, 0.05, 0.5)
    origin, end = ways(model, link, HOME, way, force)
    assert max(origin[-1], end[-1]) > 0.02
    assert origin.min() >= -LEAST_SHARE * 0.05


def test_a_prismatic_next_joint_is_no_retreat_of_the_link() -> None:
    """The slide moves its own origin along the force, but not the touched link."""
    slide = '<limit lower="-1" upper="1" velocity="1" effort="9"/>'
    text = arm(BODY, joint("slide", "upper_arm", "forearm", "prismatic", more=slide))
    sliding = Model.from_urdf(text)
    here, up = DesiredState.at_rest(np.zeros(2)), np.array((0.0, 0.0, 9.0))
    with pytest.raises(TrajectoryError, match="cannot move the ends of the link along the force"):
        retreat(sliding, sliding, here, "upper_arm", up, 0.05, 0.5)
    across = retreat(sliding, sliding, here, "upper_arm", np.array((0.0, 9.0, 0.0)), 0.05, 0.5)
    assert across.final[0] > 0.1
    assert across.final[1] == 0.0


def test_nothing_moves_a_link_along_its_only_axis(model: Model) -> None:
    """Both ends of the first link lie on the vertical axis that moves it."""
    start = DesiredState.at_rest(HOME)
    for force in np.vstack((np.eye(3), -np.eye(3))):
        with pytest.raises(TrajectoryError, match="cannot move the ends of the link"):
            retreat(model, model, start, "link_1", force, 0.05, 0.5)


def test_a_fault_from_outside_is_latched(model: Model) -> None:
    controller = started(model)
    controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME + 0.1, (), (), 1.0)])
    controller.modes.fault("somebody else sends torque")
    command = controller.update(0.001, HOME, STILL)
    assert (command.mode, command.goal) == ("safe", "cancelled")
    assert command.reason == "somebody else sends torque"
    assert np.allclose(command.torque, gravity_torque(model, HOME))
    assert controller.resume() == "holding here"
