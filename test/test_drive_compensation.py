"""Arms whose drives compensate friction or gravity by themselves."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, IDEAL, NO_RATE, SCRIPTED, STILL, Loop, rigid, started

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.control.controller_parameters import EnergyParameters
from rbd_control.control.energy import EnergyTank
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import ParameterError
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

UPRIGHT = (0.0, 0.0, -9.81)
WALL = (9.81, 0.0, 0.0)
SLOPE = (3.4, -2.0, -8.98)
"""Gravity in the frame of the root link, of a base on a wall and on a slope [m/s²]."""

FRICTION: dict[str, Any] = {
    "friction_model": "coulomb_viscous",
    "friction_coulomb": (0.9, 0.9, 0.7, 0.7, 0.4, 0.3, 0.3),
    "friction_viscous": (1.0, 1.0, 0.8, 0.8, 0.5, 0.4, 0.4),
    "friction_velocity_scale": (0.1,),
}
"""Friction in the arm file, as large as that of the demo's arm."""
COMPENSATED = {"coulomb": (0.0,), "viscous": (0.0,)}
"""A simulated arm whose drives compensate all of its friction."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# --- Friction ------------------------------------------------------------------------------------


def supplied(loop: Loop) -> float:
    """Return the energy that friction compensation supplies to a motion of 1.5 s [J]."""
    energies: list[float] = []

    def account(command: Command) -> None:
        balance = loop.controller.energy.balance()
        assert balance is not None
        energies.append(balance.supplied)

    loop.run(0.1)
    loop.follow(HOME + 0.6, 1.5)
    loop.run(1.5, account)
    return sum(energies)


def test_friction_that_the_drives_compensate_is_not_added_again(model: Model) -> None:
    """Added a second time, it supplies 0.6 J to a motion without friction, load and contact."""
    plant = {item.name: getattr(IDEAL, item.name) for item in fields(IDEAL)}
    del plant["initial_position"]
    once = supplied(Loop(model, simulated=plant, friction_compensated=True, **FRICTION))
    twice = supplied(Loop(model, simulated=plant, **FRICTION))
    assert twice == pytest.approx(0.61, abs=0.05)  # the figure of docs/control.md
    # The balance of a discrete-time loop is exact to the third order of the period.
    assert abs(once) < 1e-5


def fastest(loop: Loop, time: float) -> float:
    """Run for a time [s]; return the largest speed of any joint [rad/s]."""
    speeds: list[float] = []
    loop.run(time, lambda _: speeds.append(float(np.abs(loop.arm.v).max())))
    return max(speeds)


def test_a_held_arm_comes_to_rest_after_a_push(model: Model) -> None:
    """In a loop that is 2 ms late, friction that is compensated twice swings the arm for ever."""
    speeds = []
    for own in (True, False):
        loop = Loop(
            model,
            simulated={**COMPENSATED, "command_delay": 2},
            friction_compensated=own,
            **FRICTION,
        )
        loop.arm.push("link_5", (0.0, 20.0, 0.0), duration=0.05)
        loop.run(1.5)
        speeds.append(fastest(loop, 0.5))
    # The noise of encoders whose velocity is a filtered derivative moves the wrist by 2 mrad/s.
    assert speeds[0] < 0.01
    assert speeds[1] > 0.5


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("kind", ["coulomb_viscous", "stribeck", "sigmoid"])
def test_the_command_contains_no_friction(model: Model, kind: str, adaptive: bool) -> None:
    """The command is the command without any friction model, for every model and both laws."""
    values = {**FRICTION, "friction_model": kind, "friction_f1": (0.5,), "friction_offset": (0.2,)}
    base = ControllerParameters(**SCRIPTED, adaptive=adaptive)
    parameters = replace(base, **values, friction_compensated=True)
    with_model, without = started(model, parameters), started(model, base)
    for k in range(1, 50):
        state = (0.001 * k, HOME + 0.0002 * k, np.full(7, 0.2))
        with_model_torque = with_model.update(*state).torque
        assert np.array_equal(with_model_torque, without.update(*state).torque)


def test_friction_that_the_drives_compensate_fills_no_tank(model: Model) -> None:
    """The drives supply the losses, so that all work of the command is injected."""
    energy = EnergyParameters(tank_capacity=50.0, tank_refill=0.0)
    levels = []
    for own in (False, True):
        tank = EnergyTank(model, ControllerParameters(**FRICTION, friction_compensated=own), energy)
        v, push = np.full(7, 0.5), np.full(7, 2.0)
        for k in range(101):
            q = HOME + 0.001 * k * v
            tank.limit(q, v, gravity_torque(model, q) + push, 0.001)
        levels.append(tank.level)
    assert levels[1] == pytest.approx(50.0 - 7 * 2.0 * 0.5 * 0.1, abs=1e-9)
    assert levels[0] > levels[1] + 0.1


def test_measured_torque_may_contain_friction_that_the_drives_compensate(model: Model) -> None:
    """The energy balance uses the sent torque instead; the effort does not change it."""
    parameters = replace(NO_RATE, friction_compensated=True)
    injected = []
    for effort in (0.0, 5.0):
        controller, v = started(model, parameters), np.full(7, 0.1)
        for k in range(1, 5):
            controller.update(0.001 * k, HOME + 0.001 * k * v, v)
            balance = controller.energy.balance(np.full(7, effort))
        assert balance is not None
        injected.append(balance.injected)
    assert injected[0] == injected[1]


# --- Gravity -------------------------------------------------------------------------------------


class OwnGravity:
    """A tilted arm whose drives add its gravity torque under ``assumed`` gravity.

    Friction and sensor errors are zero.
    """

    def __init__(
        self, gravity: tuple[float, ...], assumed: tuple[float, ...], **parameters: Any
    ) -> None:
        self.assumed = Model.from_urdf(arm7_urdf(), gravity=assumed)
        simulation: SimulationParameters = replace(IDEAL, initial_position=tuple(HOME))
        self.arm = SimulatedArm(Model.from_urdf(arm7_urdf(), gravity=gravity), simulation)
        given = rigid(**{"gravity_compensated": True, **parameters})
        self.controller = PassivityController(self.arm.model, given)
        sample = self.arm.reading()
        assert sample is not None
        self.controller.start(sample.stamp, sample.q, sample.v)

    def run(self, time: float) -> float:
        """Run for a time [s]; return the largest distance of a joint from its position [rad]."""
        q, far = self.arm.q.copy(), 0.0
        for _ in range(round(1000 * time)):
            sample = self.arm.reading()
            assert sample is not None
            command = self.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
            self.arm.step(command.torque + gravity_torque(self.assumed, self.arm.q))
            far = max(far, float(np.abs(self.arm.q - q).max()))
        return far


@pytest.mark.parametrize(
    ("gravity", "assumed", "given"),
    [(WALL, UPRIGHT, UPRIGHT), (SLOPE, UPRIGHT, UPRIGHT), (WALL, WALL, ()), (UPRIGHT, WALL, WALL)],
)
@pytest.mark.parametrize("mode", ["hold", "float", "safe"])
def test_a_tilted_arm_stays_where_it_is(
    gravity: tuple[float, ...], assumed: tuple[float, ...], given: tuple[float, ...], mode: str
) -> None:
    """The drives and the command together hold the arm, whatever gravity the drives assume."""
    arm = OwnGravity(gravity, assumed, compensated_gravity=given)
    # 0.2 s for the first torque, which ``torque_rate`` limits.
    arm.run(0.2)
    if mode == "float":
        arm.controller.modes.order("float")
    elif mode == "safe":
        arm.controller.modes.fault("test")
    assert arm.run(0.5) < 1e-4
    assert arm.controller.mode == mode
    # It moves by 1e-5 rad until the first torque; feedback alone holds it 5e-3 or more away.
    assert np.abs(arm.arm.q - HOME).max() < 1e-4


@pytest.mark.parametrize(("assumed", "given"), [(UPRIGHT, ()), (WALL, UPRIGHT)])
def test_with_the_wrong_gravity_a_floating_arm_does_not_stay(
    assumed: tuple[float, ...], given: tuple[float, ...]
) -> None:
    """docs/how_to/torque_control.md says what each case lacks; `hold` corrects a part of it."""
    arm = OwnGravity(WALL, assumed, compensated_gravity=given)
    arm.run(0.2)
    arm.controller.modes.order("float")
    assert arm.run(0.3) > 0.05


def test_the_command_is_the_difference_of_both_gravity_torques() -> None:
    """It contains the payload, and the brake alone is sent while the model is wrong."""
    bare, upright = (Model.from_urdf(arm7_urdf(), gravity=g) for g in (WALL, UPRIGHT))
    load = (bare.joint_links[-1], 1.5, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    model, assumed = bare.with_payload(*load), upright.with_payload(*load)
    difference = gravity_torque(model, HOME) - gravity_torque(assumed, HOME)
    parameters = replace(NO_RATE, gravity_compensated=True, compensated_gravity=UPRIGHT)
    controller = started(model, parameters)
    assert np.allclose(controller.update(0.001, HOME, STILL).torque, difference, atol=1e-9)
    controller.modes.fault("test")
    assert np.allclose(controller.update(0.002, HOME, STILL).torque, difference, atol=1e-9)
    controller.set_model_error("held joint tilt has moved")
    assert not controller.update(0.003, HOME, STILL).torque.any()
    assert not controller.update(0.004, HOME, None).torque.any()


def test_zero_torque_is_refused_for_an_arm_that_it_does_not_hold(model: Model) -> None:
    own: dict[str, Any] = {"gravity_compensated": True, "safe_torque": "zero"}
    PassivityController(model, ControllerParameters(**own, compensated_gravity=UPRIGHT))
    for gravity in (WALL, (0.0, 0.0, 9.81)):
        with pytest.raises(ParameterError, match="safe_torque is zero but the arm does not hold"):
            PassivityController(model, ControllerParameters(**own, compensated_gravity=gravity))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"compensated_gravity": UPRIGHT}, "gravity_compensated is false"),
        ({"compensated_gravity": (0.0, 9.81), "gravity_compensated": True}, "has 2 values"),
    ],
)
def test_an_impossible_gravity_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ControllerParameters(**values)
