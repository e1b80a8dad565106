"""Motions known on paper: the planar double pendulum, a free body, a swing without losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rbd_control import dynamics
from rbd_control.dynamics import Model

from .helpers import relative, rotation

# A few dozen products and sums of numbers of order one.
ROUNDOFF = 1e-14

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

BODY_INERTIA = np.array([0.03, 0.05, 0.06])
BODY_MASS = 2.5
BODY = f"""
<robot name="body"><link name="body"><inertial><mass value="{BODY_MASS}"/>
  <inertia ixx="{BODY_INERTIA[0]}" ixy="0" ixz="0" iyy="{BODY_INERTIA[1]}" iyz="0"
    izz="{BODY_INERTIA[2]}"/></inertial></link></robot>"""


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
    assert relative(terms.M, M) < ROUNDOFF
    assert relative(terms.C, C) < ROUNDOFF
    assert relative(terms.CTv, C.T @ v) < ROUNDOFF
    assert relative(terms.g, g) < ROUNDOFF


def test_free_body_obeys_euler() -> None:
    """tau = I w_dot + w x I w,  f = m (u_dot + w x u) - m Rᵀ gamma, in the body's axes."""
    model = Model.from_urdf(BODY, floating_base=True)
    rng = np.random.default_rng(3)
    v, a = rng.normal(size=(2, 6))
    q = np.append(rng.normal(size=3), rng.normal(size=4))
    q[3:] /= np.linalg.norm(q[3:])
    w, u = v[:3], v[3:]
    weight = BODY_MASS * rotation(q[3:]).T @ model.gravity
    moment = BODY_INERTIA * a[:3] + np.cross(w, BODY_INERTIA * w)
    force = BODY_MASS * (a[3:] + np.cross(w, u)) - weight
    expected = np.concatenate([moment, force])
    assert relative(dynamics.inverse_dynamics(model, q, v, a), expected) < ROUNDOFF
    assert relative(dynamics.forward_dynamics(model, q, v, expected), a) < ROUNDOFF
    # The length of the quaternion says nothing.
    q[3:] *= -3.0
    assert relative(dynamics.inverse_dynamics(model, q, v, a), expected) < ROUNDOFF
