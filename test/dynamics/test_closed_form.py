"""Lynch & Park's closed form: its own identities, then the recursions it must agree with.

ROUNDOFF: products of dense matrices of some fifty rows lose two digits more than the recursions;
a rotor with gear ratio 60 has terms in c that cancel to another two.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, with_rotors

from .helpers import random_q, relative, units

ROUNDOFF = 1e-11


def robot(seed: int, *, floating: bool, geared: bool) -> tuple[Model, np.random.Generator]:
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(seed, 7, prismatic=0.3, branching=0.4, continuous=0.2)
    model = Model.from_urdf(urdf, floating_base=floating, gravity=rng.uniform(-10, 10, 3))
    if geared:
        inertia = np.diag([2e-4, 2e-4, 3e-4])
        rotors = {
            name: Rotor(
                rng.uniform(-60.0, 60.0), inertia, rng.normal(size=3), 0.2, rng.normal(size=3)
            )
            for name in model.joint_names[::2]
        }
        model = with_rotors(model, rotors)
    return model, rng


every_kind = pytest.mark.parametrize(
    ("seed", "floating", "geared"),
    [(seed, floating, geared) for seed in (0, 1, 2) for floating in (0, 1) for geared in (0, 1)],
)


@every_kind
def test_terms_are_those_of_the_recursions(seed: int, floating: bool, geared: bool) -> None:
    model, rng = robot(seed, floating=floating, geared=geared)
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    M, C, _, g = dynamics.dynamics_terms(model, q, v)
    unit, square = units(M)
    terms = dynamics.closed_form_terms(model, q, v)
    assert relative(terms.M / square, M / square) < ROUNDOFF
    assert relative(terms.c / unit, C @ v / unit) < ROUNDOFF
    assert relative(terms.g / unit, g / unit) < ROUNDOFF
    wrenches = {link: rng.normal(size=6) for link in model.link_names[::3]}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(model, q, v, a, pushed)
        mine = dynamics.closed_form_inverse_dynamics(model, q, v, a, pushed)
        assert relative(mine / unit, tau / unit) < ROUNDOFF
        found = dynamics.forward_dynamics_by_mass_matrix(model, q, v, tau, pushed)
        assert relative(found * unit, a * unit) < ROUNDOFF
        again = dynamics.forward_dynamics(model, q, v, tau, pushed)
        assert relative(found * unit, again * unit) < ROUNDOFF


# --- The source's own examples, and what is wrong in its print -----------------------------------


LENGTH = (0.7, 0.4)
MASS = (1.3, 0.9)
# Two links with point masses at their ends, in the x-y plane, gravity along -y (LP 9.1.1).
PLANAR_2R = f"""
<robot name="planar_2r">
  <link name="base"/><link name="first"/><link name="second"/>
  <link name="first_mass"><inertial><mass value="{MASS[0]}"/>
    <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
  <link name="second_mass"><inertial><mass value="{MASS[1]}"/>
    <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
  <joint name="theta1" type="continuous"><parent link="base"/><child link="first"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="theta2" type="continuous"><parent link="first"/><child link="second"/>
    <origin xyz="{LENGTH[0]} 0 0"/><axis xyz="0 0 1"/></joint>
  <joint name="end1" type="fixed"><parent link="first"/><child link="first_mass"/>
    <origin xyz="{LENGTH[0]} 0 0"/></joint>
  <joint name="end2" type="fixed"><parent link="second"/><child link="second_mass"/>
    <origin xyz="{LENGTH[1]} 0 0"/></joint>
</robot>"""


@pytest.mark.parametrize("seed", range(3))
def test_planar_2r(seed: int) -> None:
    """LP after (9.8), with cos theta2 in M_12 and the signs of tau_2's last terms corrected.

    Printed: cos theta1 in M_12, -m2 L1 L2 v1 v2 sin theta2 for +m2 L1 L2 v1² sin theta2, and minus
    before tau_2's gravity.
    """
    model = Model.from_urdf(PLANAR_2R, gravity=(0.0, -9.81, 0.0))
    rng = np.random.default_rng(seed)
    (t1, t2), (v1, v2) = q, v = rng.uniform(-3.0, 3.0, (2, 2))
    (l1, l2), (m1, m2) = LENGTH, MASS
    inner = (m1 + m2) * l1**2 + m2 * (2.0 * l1 * l2 * math.cos(t2) + l2**2)
    mixed = m2 * (l1 * l2 * math.cos(t2) + l2**2)
    h = m2 * l1 * l2 * math.sin(t2)
    g2 = m2 * 9.81 * l2 * math.cos(t1 + t2)
    terms = dynamics.closed_form_terms(model, q, v)
    # A few dozen products of numbers of order one.
    assert relative(terms.M, np.array([[inner, mixed], [mixed, m2 * l2**2]])) < 1e-14
    assert relative(terms.c, np.array([-2.0 * h * v1 * v2 - h * v2**2, h * v1**2])) < 1e-14
    g = np.array([(m1 + m2) * l1 * 9.81 * math.cos(t1) + g2, g2])
    assert relative(terms.g, g) < 1e-14
