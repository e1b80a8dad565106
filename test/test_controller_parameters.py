"""Every parameter of the controller changes the output; a parameter without a case fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL

from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError, TrajectoryError
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.simulation import arm7_urdf

SLOW = np.full(7, 0.1)
Sent = list[tuple[Any, ...]]


class Script:
    """A controller with scripted joint states and orders; :attr:`sent` holds its output."""

    def __init__(self, controller: PassivityController) -> None:
        self.controller, self.stamp = controller, 0.0
        self.sent: Sent = []

    def see(self, q: np.ndarray, v: np.ndarray = STILL, dt: float = 0.001, times: int = 1) -> None:
        for _ in range(times):
            self.stamp += dt
            command = self.controller.update(self.stamp, q, v)
            balance = self.controller.energy.balance()
            passive = balance is None or balance.passive
            frozen = self.controller.path.frozen
            said = (command.mode, command.goal, command.reason, passive, frozen)
            self.sent.append((*said, *command.torque))

    def go(self, offset: float, time: float, joints: int = 7, **fields: Any) -> None:
        names = self.controller.model.joint_names[:joints]
        point = TrajectoryPoint(HOME[:joints] + offset, time_from_start=time, **fields)
        try:
            self.controller.set_trajectory(names, [point])
        except TrajectoryError as error:
            self.sent.append((str(error),))


def tracking(script: Script) -> None:
    """Off its path and moving, after the goal too."""
    script.go(0.06, 0.5)
    script.see(HOME + 0.01, SLOW, times=700, dt=0.001)


def contradictory(script: Script) -> None:
    """Velocities of the wrong sign."""
    v = np.array([0.5, 0, 0, 0, 0, 0, 0])
    for k in range(40):
        script.see(HOME + 0.001 * k * v, -v)


def delayed(script: Script) -> None:
    """Joint states that are each 1 ms later than the one before."""
    for k in range(40):
        script.stamp += 0.001
        command = script.controller.update(script.stamp, HOME, STILL, now=0.002 * k)
        script.sent.append((command.mode, command.reason, *command.torque))


def resting(script: Script) -> None:
    script.see(HOME, times=700)


def stuck(script: Script) -> None:
    """Joint states that repeat at rest while a motion is asked for."""
    script.go(0.3, 1.0)
    script.see(HOME, times=200)


def speeding(script: Script) -> None:
    """Joint 1 at two and a half times its speed limit, for 40 ms."""
    v = np.array([5.0, 0, 0, 0, 0, 0, 0])
    for k in range(40):
        script.see(HOME + 0.001 * k * v, v)


def arriving(script: Script) -> None:
    """The goal is all but reached, slowly, then lost."""
    script.go(0.06, 0.5)
    script.see(HOME + 0.05, SLOW, dt=0.01, times=60)
    script.see(HOME + 0.01, SLOW, dt=0.01, times=60)


def straining(script: Script) -> None:
    """So far off that torques are at their limits."""
    script.see(HOME + 0.01, SLOW)
    for k in range(5):
        script.see(HOME + 0.03 * k, np.full(7, 1.0))


def rubbish(script: Script) -> None:
    """Jumps, bursts of speed, a gap; then the safe torque on a moving arm."""
    script.see(HOME)
    script.see(HOME + 0.3, SLOW, times=3)
    script.see(HOME, SLOW, times=1)
    script.see(HOME, np.full(7, 8.0), times=3)
    script.see(HOME, SLOW, dt=0.1)
    script.see(HOME, SLOW, dt=0.01, times=2)
    script.see(HOME + 0.3, SLOW, times=9)


def touching(script: Script) -> None:
    """A contact with a known force in a motion that goes on."""
    script.go(0.3, 1.0)
    script.see(HOME, SLOW, times=20)
    script.controller.set_contact_force("link_6", np.array([5.0, 10.0, 0.0]))
    script.controller.contact(True)
    script.see(HOME, SLOW, times=400, dt=0.001)


def at_a_limit(script: Script) -> None:
    """A hand leads joint 4 to its lower limit, past the soft one."""
    script.controller.modes.order("float")
    q = HOME.copy()
    for position in np.arange(HOME[3], -2.18, -0.004):
        q[3] = position
        script.see(q, np.array([0, 0, 0, -0.4, 0, 0, 0]))


def nearing_a_limit(script: Script) -> None:
    """A trajectory goes fast to the soft limit of joint 4, and the arm follows."""
    goal = HOME + np.array([0, 0, 0, -2.14 - HOME[3], 0, 0, 0])
    point = TrajectoryPoint(goal, time_from_start=0.7)
    script.controller.set_trajectory(script.controller.model.joint_names, [point])
    q = HOME
    for _ in range(800):
        script.stamp += 0.001
        command = script.controller.update(script.stamp, q, STILL)
        q = command.q_d
        script.sent.append(tuple(command.torque))


def partial(script: Script) -> None:
    script.go(0.1, 1.0, joints=3)
    script.see(HOME, times=20)


def a_turn_away(script: Script) -> None:
    script.go(2.0 * np.pi, 9.0)
    script.see(HOME, times=20)


def too_fast(script: Script) -> None:
    script.go(1.0, 0.3)
    script.see(HOME, times=20)


def streaming(script: Script) -> None:
    for k in range(1, 8):
        script.go(0.01 * k, 0.1)
        script.see(HOME + 0.01 * (k - 1), SLOW, times=50)


def swinging(script: Script) -> None:
    """A motion that lags, with errors to learn from; torques near the limits at times."""
    script.go(0.4, 0.5)
    for k in range(1, 600):
        x = min(k / 500.0, 1.0)
        s, rate = 3.0 * x**2 - 2.0 * x**3, 12.0 * x * (1.0 - x)
        script.see(HOME + 0.38 * s, np.full(7, 0.38 * rate))


FRICTION = {
    "friction_model": "coulomb_viscous",
    "friction_coulomb": (0.5,),
    "friction_viscous": (0.3,),
}
SIGMOID = {"friction_model": "sigmoid", "friction_f1": (0.5,), "friction_f2": (5.0,)}

# What is different, in which scenario, and what is different in both runs.
CASES: dict[str, tuple[Any, Callable[[Script], None], dict[str, Any]]] = {
    "bandwidth": ((20.0,), tracking, {}),
    "damping": ((1.0,), tracking, {}),
    "damping_rate": (30.0, tracking, {}),
    "resonance": (30.0, tracking, {"damping_rate": 12.0, "bandwidth": (6.0,)}),
    "loop_delay": (0.02, rubbish, {"damping_rate": 20.0, "bandwidth": (5.0,)}),
    "bias_rate": (2.0, tracking, {}),
    "friction_model": ("coulomb_viscous", tracking, {"friction_coulomb": (0.5,)}),
    "friction_coulomb": ((0.9,), tracking, FRICTION),
    "friction_viscous": ((0.9,), tracking, FRICTION),
    "friction_offset": ((0.9,), tracking, FRICTION),
    "friction_velocity_scale": ((0.3,), tracking, FRICTION),
    "friction_f1": ((0.9,), tracking, SIGMOID),
    "friction_f2": ((2.0,), tracking, SIGMOID),
    "friction_f3": ((0.1,), tracking, SIGMOID),
    "adaptive": (True, swinging, {}),
    "adapted_links": (("link_3",), swinging, {"adaptive": True}),
    "learning_rate": (0.1, swinging, {"adaptive": True}),
    "largest_payload_mass": (1.0, swinging, {"adaptive": True}),
    "largest_payload_reach": (0.1, swinging, {"adaptive": True}),
    "passivity_margin": (0.9, swinging, {"torque_share": (0.5,)}),
    "passivity_tolerance": (500.0, tracking, {"torque_share": (0.25,)}),
    "passivity_window": (1.0, tracking, {"torque_share": (0.25,)}),
    "tank_capacity": (0.5, swinging, {}),
    "tank_refill": (100.0, swinging, {"tank_capacity": 0.5}),
    "tank_valve": (0.8, swinging, {"tank_capacity": 0.5}),
    "effort_limit": ((40.0,), straining, {}),
    "velocity_limit": ((0.1,), tracking, {}),
    "torque_share": ((0.3,), straining, {}),
    "torque_rate": ((100.0,), tracking, {}),
    "gravity_compensated": (True, tracking, {}),
    "compensated_gravity": ((9.81, 0.0, 0.0), tracking, {"gravity_compensated": True}),
    "friction_compensated": (True, tracking, FRICTION),
    "stop_time": (0.3, touching, {}),
    "timeout": (0.5, rubbish, {}),
    "safe_torque": ("zero", rubbish, {}),
    "bad_samples": (2, rubbish, {}),
    "repeated_time": (0.5, tracking, {"repeated_time": 0.015}),
    "repeated_torque_share": (
        0.5,
        stuck,
        {"repeated_torque_share": 0.25, "repeated_time": 0.015},
    ),
    "repeated_time_at_rest": (0.1, resting, {}),
    "implausible_speed": (3.0, rubbish, {}),
    "default_velocity_limit": (1.0, rubbish, {}),
    "overspeed_factor": (4.0, speeding, {}),
    "implausible_jump": (0.5, rubbish, {}),
    "velocity_mismatch": (0.004, contradictory, {}),
    "delay_growth": (0.01, delayed, {}),
    "tracking_limit": ((0.02,), tracking, {}),
    "contact_reaction": ("float", touching, {}),
    "require_detector": (True, resting, {}),
    "retract_distance": (0.1, touching, {"contact_reaction": "retract"}),
    "retract_time": (0.2, touching, {"contact_reaction": "retract"}),
    "slow_factor": (0.5, touching, {"contact_reaction": "slow"}),
    "limit_margin": ((0.1,), at_a_limit, {}),
    "limit_torque_share": ((0.2,), at_a_limit, {}),
    "limit_approach": (5.0, nearing_a_limit, {}),
    "allow_partial_joints_goal": (True, partial, {}),
    "angle_wraparound": (True, a_turn_away, {}),
    "stretch_to_limits": (True, too_fast, {}),
    "stream_horizon": (0.0, streaming, {}),
    "path_tolerance": ((0.01,), tracking, {}),
    "goal_tolerance": ((0.005,), arriving, {}),
    "stopped_velocity_tolerance": (0.05, arriving, {"stopped_velocity_tolerance": 0.2}),
    "goal_time": (0.1, arriving, {"goal_tolerance": (0.001,)}),
}


# Of the detector only: what falls with speed would take damping away, see slotine_li.py.
UNUSED = {"friction_stribeck", "friction_stribeck_velocity"}


def test_every_parameter_has_a_case() -> None:
    assert {item.name for item in fields(ControllerParameters)} == {*CASES, *UNUSED}


def test_the_configuration_that_ships_holds_the_defaults() -> None:
    path = Path(__file__).resolve().parent.parent / "config" / "passivity_controller.yaml"
    read = law_parameters(ControllerParameters, read_parameter_file(path, "passivity_controller"))
    assert read == ControllerParameters()


@pytest.mark.parametrize("item", fields(ControllerParameters), ids=lambda item: item.name)
def test_every_number_has_finite_bounds(item: Any) -> None:
    if isinstance(item.default, (bool, str)) or item.name == "adapted_links":
        return
    lower, upper = max(item.metadata["lower"], item.metadata["above"]), item.metadata["upper"]
    assert np.isfinite([lower, upper]).all()
    for far in (1e308, -1e308):
        value: Any = far if not isinstance(item.default, tuple) else (far,)
        if isinstance(item.default, int):
            value = int(far)
        with pytest.raises(ParameterError, match=item.name):
            ControllerParameters(**{item.name: value})


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_changes_the_output(name: str) -> None:
    value, scenario, common = CASES[name]
    base = replace(ControllerParameters(), **{**SCRIPTED, **common})
    assert sent(name, scenario, base) != sent(name, scenario, replace(base, **{name: value}))


@pytest.mark.parametrize("name", sorted(UNUSED))
def test_friction_that_falls_with_speed_is_not_compensated(name: str) -> None:
    base = replace(ControllerParameters(), **{**SCRIPTED, **FRICTION, "friction_model": "stribeck"})
    assert sent(name, tracking, base) == sent(name, tracking, replace(base, **{name: (0.7,)}))


def sent(name: str, scenario: Callable[[Script], None], parameters: ControllerParameters) -> Sent:
    model = Model.from_urdf(arm7_urdf())
    if name == "angle_wraparound":
        endless = np.full(model.nv, np.inf)
        model = replace(model, lower_limit=-endless, upper_limit=endless)
    if name == "default_velocity_limit":
        model = replace(model, velocity_limit=np.full(model.nv, np.inf))
    controller = PassivityController(model, parameters)
    controller.contact(False, 0.0)
    controller.start(0.0, HOME, STILL)
    script = Script(controller)
    scenario(script)
    return script.sent
