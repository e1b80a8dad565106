"""Laws of mechanics for every robot, on random trees, and two robots whose equations are known.

Tolerances: :data:`ROUNDOFF` for identities between results, which are some hundred products of
numbers of the size of the natural units of ``helpers.py`` (2e-13 at most in a thousand trees);
:data:`~.helpers.DIFFERENCE` where one side is a numerical derivative.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from rbd_control import dynamics
from rbd_control.dynamics import Model

from .helpers import (
    DIFFERENCE,
    advance,
    derivative,
    random_q,
    relative,
    tree,
    units,
)

ROUNDOFF = 1e-12


every_tree = pytest.mark.parametrize(
    "model", [tree(seed, floating=f) for seed in range(4) for f in (False, True)], ids=str
)


@every_tree
def test_rate_of_mass_matrix(model: Model) -> None:
    """M_dot = C + Cᵀ, hence sᵀ (M_dot - 2 C) s = 0 for every s."""
    rng = np.random.default_rng(0)
    q, v = random_q(model, rng), rng.uniform(-1.0, 1.0, model.nv)
    v /= np.abs(v).sum()  # for the derivative along it
    unit, square = units(dynamics.mass_matrix(model, q))
    C = dynamics.coriolis_matrix(model, q, v)
    M_dot = derivative(lambda t: dynamics.mass_matrix(model, advance(model, q, v, t)))
    assert np.abs((C + C.T - M_dot) / square).max() < DIFFERENCE
    assert np.abs((dynamics.mass_matrix_rate(model, q, v) - M_dot) / square).max() < DIFFERENCE
    s = rng.uniform(-1.0, 1.0, model.nv) / unit
    assert abs(s @ (M_dot - 2.0 * C) @ s) < DIFFERENCE


@every_tree
def test_torques_are_sums_of_the_terms(model: Model) -> None:
    rng = np.random.default_rng(1)
    q, (v, v_r, a_r) = random_q(model, rng), rng.uniform(-2.0, 2.0, (3, model.nv))
    M, C, CTv, g = dynamics.dynamics_terms(model, q, v)
    unit, _ = units(M)
    p = M @ v
    sums = [
        (dynamics.slotine_li_torque(model, q, v, v_r, a_r), M @ a_r + C @ v_r + g),
        (dynamics.inverse_dynamics(model, q, v, a_r), M @ a_r + C @ v + g),
        (dynamics.momentum(model, q, v), p),
        *zip(dynamics.momentum_terms(model, q, v), (p, CTv, g), strict=True),
    ]
    for value, expected in sums:
        assert relative(value / unit, expected / unit) < ROUNDOFF
    assert relative(dynamics.kinetic_energy(model, q, v), 0.5 * v @ p) < ROUNDOFF


# A few dozen products and sums of numbers of order one.
EXACT = 1e-14

LENGTH = 0.7
MASS_1, CENTRE_1, INERTIA_1 = 1.3, 0.31, 0.021
MASS_2, CENTRE_2, INERTIA_2 = 0.9, 0.24, 0.013
GRAVITY = 9.81

# Joints turn about -y, so that positive angles lift x towards z.
DOUBLE_PENDULUM = f"""
<robot name="double_pendulum">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="{CENTRE_1} 0 0"/><mass value="{MASS_1}"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="{INERTIA_1}" iyz="0" izz="0.02"/></inertial></link>
  <link name="lower"><inertial><origin xyz="{CENTRE_2} 0 0"/><mass value="{MASS_2}"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="{INERTIA_2}" iyz="0" izz="0.01"/></inertial></link>
  <joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/>
    <axis xyz="0 -1 0"/></joint>
  <joint name="elbow" type="continuous"><parent link="upper"/><child link="lower"/>
    <origin xyz="{LENGTH} 0 0"/><axis xyz="0 -1 0"/></joint>
</robot>"""


@pytest.mark.parametrize("seed", range(3))
def test_double_pendulum(seed: int) -> None:
    """Siciliano et al., Robotics (2009), section 7.3.2: the two-link planar arm."""
    rng = np.random.default_rng(seed)
    q, v = rng.uniform(-3.0, 3.0, (2, 2))
    c1, c2, s2 = math.cos(q[0]), math.cos(q[1]), math.sin(q[1])
    c12 = math.cos(q[0] + q[1])
    reach = LENGTH * CENTRE_2
    outer = INERTIA_2 + MASS_2 * CENTRE_2**2
    inner = INERTIA_1 + MASS_1 * CENTRE_1**2 + MASS_2 * LENGTH**2
    coupled = outer + MASS_2 * reach * c2
    M = np.array([[inner + outer + 2.0 * MASS_2 * reach * c2, coupled], [coupled, outer]])
    h = -MASS_2 * reach * s2
    C = np.array([[h * v[1], h * (v[0] + v[1])], [-h * v[0], 0.0]])
    g_2 = MASS_2 * CENTRE_2 * GRAVITY * c12
    g = np.array([(MASS_1 * CENTRE_1 + MASS_2 * LENGTH) * GRAVITY * c1 + g_2, g_2])

    terms = dynamics.dynamics_terms(Model.from_urdf(DOUBLE_PENDULUM), q, v)
    assert relative(terms.M, M) < EXACT
    assert relative(terms.C, C) < EXACT
    assert relative(terms.CTv, C.T @ v) < EXACT
    assert relative(terms.g, g) < EXACT
