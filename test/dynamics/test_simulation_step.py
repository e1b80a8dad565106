"""One step of a simulation: the source's formulas, orders of accuracy, energy, friction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, simulation_step
from rbd_control.errors import InputError
from rbd_control.robot.friction import CoulombViscousFriction

from .helpers import Array, random_q, relative

METHODS = ("euler", "semi_implicit_euler", "runge_kutta")


def tree(*, floating: bool) -> Model:
    urdf = random_tree_urdf(1, 4, prismatic=0.3, branching=0.4)
    rotors = {"joint0": Rotor(30.0, 2e-4), "joint2": Rotor(-20.0, 3e-4, [0.6, 0.8, 0.0])}
    return Model.from_urdf(urdf, floating_base=floating, rotors=rotors)


def start(model: Model, seed: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    tau = dynamics.gravity_torque(model, q := random_q(model, rng))
    return q, rng.uniform(-1.0, 1.0, model.nv), tau + rng.uniform(-0.1, 0.1, model.nv)


def run(model: Model, duration: float, steps: int, method: Any, **options: Any) -> Array:
    q, v, tau = start(model)
    for _ in range(steps):
        q, v = simulation_step(model, q, v, tau, duration / steps, method=method, **options)
    return np.concatenate([q, v])


def test_euler_is_the_sources() -> None:
    """LP 9.5: theta + h theta_dot, theta_dot + h theta_ddot; semi-implicit moves with the new."""
    model = tree(floating=False)
    q, v, tau = start(model)
    wrenches = {"link2": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    a = dynamics.forward_dynamics(model, q, v, tau, wrenches)
    q_e, v_e = simulation_step(model, q, v, tau, 0.01, method="euler", wrenches=wrenches)
    q_s, v_s = simulation_step(model, q, v, tau, 0.01, wrenches=wrenches)
    assert np.array_equal(v_e, v + 0.01 * a)
    assert np.array_equal(v_s, v_e)
    assert np.array_equal(q_e, q + 0.01 * v)
    assert np.array_equal(q_s, q + 0.01 * v_s)


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize(("method", "order"), list(zip(METHODS, (1, 1, 4), strict=True)))
def test_order_of_accuracy(method: str, order: int, floating: bool) -> None:
    """Half the step leaves 2^-order of the error, give or take the next order."""
    model = tree(floating=floating)
    exact = run(model, 0.2, 400, "runge_kutta")
    coarse, fine = (np.abs(run(model, 0.2, n, method) - exact).max() for n in (20, 40))
    assert coarse / fine == pytest.approx(2.0**order, rel=0.25)


PENDULUM = """
<robot name="pendulum"><link name="base"/>
  <link name="bob"><inertial><origin xyz="0 0 -0.5"/><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="bob"/>
    <axis xyz="0 1 0"/></joint></robot>"""
INERTIA = 0.1 + 2.0 * 0.25


def friction(coulomb: float, viscous: float) -> CoulombViscousFriction:
    return CoulombViscousFriction(*np.array([[coulomb], [viscous], [0.0], [1e-6]]))


def test_friction_on_paper() -> None:
    """Coulomb and viscous: v = (v_0 + c/b) exp(-b t / I) - c/b until it stops."""
    model = Model.from_urdf(PENDULUM, gravity=(0.0, 0.0, 0.0))
    q, v, t = np.zeros(1), np.array([3.0]), 0.0
    c, b = 0.4, 0.3
    law = friction(c, b).torque
    for _ in range(50):
        q, v = simulation_step(model, q, v, [0.0], 0.02, method="runge_kutta", friction=law)
        t += 0.02
    # (h b / I)^5 / 120 per step is 1e-12.
    assert relative(v, [(3.0 + c / b) * math.exp(-b * t / INERTIA) - c / b]) < 1e-10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dt": 0.0}, "dt is 0.0 s; it must be positive"),
        ({"method": "verlet"}, "no method 'verlet'; methods are euler, semi_implicit_euler, runge"),
        ({"tau": np.zeros(3)}, r"tau has shape \(3,\) but the model has nv = 4"),
        ({"friction": lambda v: np.append(v, v)}, "friction gave shape"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], words: str) -> None:
    model = tree(floating=False)
    q, v, tau = start(model)
    with pytest.raises(InputError, match=words):
        simulation_step(model, **{"q": q, "v": v, "tau": tau, "dt": 0.01, **change})
