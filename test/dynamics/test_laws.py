"""Laws of mechanics for every robot, on random trees, and two robots whose equations are known.

Tolerances: :data:`ROUNDOFF` for identities between results, which are some hundred products of
numbers of the size of the natural units of ``helpers.py`` (2e-13 at most in a thousand trees);
:data:`~.helpers.DIFFERENCE` where one side is a numerical derivative.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model

from .helpers import (
    DIFFERENCE,
    Array,
    advance,
    cross_matrix,
    derivative,
    random_q,
    relative,
    rotation,
    units,
)

ROUNDOFF = 1e-12


class Sample(NamedTuple):
    """A random robot and state, with a generator ``rng`` for further random numbers."""

    model: Model
    q: Array
    v: Array
    rng: np.random.Generator

    @property
    def slow(self) -> Array:
        """``v`` scaled to sum |v_i| = 1, for numerical derivatives along it."""
        return self.v / np.abs(self.v).sum()


@st.composite
def samples(draw: st.DrawFn, *, floating: bool | None = None) -> Sample:
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    urdf = random_tree_urdf(
        seed,
        draw(st.integers(1, 8), label="joints"),
        branching=draw(st.sampled_from([0.0, 0.3, 1.0]), label="branching"),
        prismatic=draw(st.sampled_from([0.0, 0.3, 1.0]), label="prismatic"),
        continuous=0.2,
    )
    rng = np.random.default_rng(seed)
    floating_base = draw(st.booleans(), label="floating base") if floating is None else floating
    model = Model.from_urdf(urdf, floating_base=floating_base, gravity=rng.uniform(-10, 10, 3))
    return Sample(model, random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv), rng)


law = settings(max_examples=50, deadline=None, derandomize=True)


def sliding(model: Model, q: Array) -> Array:
    """``q`` displaced along every unit velocity in turn, as a function for :func:`derivative`."""
    return lambda t: advance(model, q, np.eye(model.nv), t)


# --- The mass matrix and its rate ----------------------------------------------------------------


@law
@given(samples())
def test_rate_of_mass_matrix(sample: Sample) -> None:
    """M_dot = C + Cᵀ, hence sᵀ (M_dot - 2 C) s = 0 for every s."""
    model, q, v = sample.model, sample.q, sample.slow
    unit, square = units(dynamics.mass_matrix(model, q))
    C = dynamics.coriolis_matrix(model, q, v)
    M_dot = derivative(lambda t: dynamics.mass_matrix(model, advance(model, q, v, t)))
    assert np.abs((C + C.T - M_dot) / square).max() < DIFFERENCE
    assert np.abs((dynamics.mass_matrix_rate(model, q, v) - M_dot) / square).max() < DIFFERENCE
    s = sample.rng.uniform(-1.0, 1.0, model.nv) / unit
    assert abs(s @ (M_dot - 2.0 * C) @ s) < DIFFERENCE


# --- The Coriolis matrix -------------------------------------------------------------------------


@law
@given(samples())
def test_transpose_product_is_the_gradient_of_kinetic_energy(sample: Sample) -> None:
    """(Cᵀ v)_i = ∂T/∂q_i; for the base, which T does not depend on, -(v x* p)."""
    model, q, v = sample.model, sample.q, sample.slow
    unit, _ = units(dynamics.mass_matrix(model, q))
    CTv = dynamics.coriolis_transpose_product(model, q, v)
    moved = sliding(model, q)
    gradient = derivative(lambda t: dynamics.kinetic_energy(model, moved(t), v))
    if model.floating_base:
        w, u = cross_matrix(v[:3]), cross_matrix(v[3:6])
        p = dynamics.momentum(model, q, v)
        assert np.abs(gradient[:6] / unit[:6]).max() < DIFFERENCE
        gradient[:6] = -np.concatenate([w @ p[:3] + u @ p[3:6], w @ p[3:6]])
    assert np.abs((CTv - gradient) / unit).max() < DIFFERENCE
    C = dynamics.coriolis_matrix(model, q, v)
    assert np.abs((CTv - C.T @ v) / unit).max() < ROUNDOFF


# --- One result against another ------------------------------------------------------------------


@law
@given(samples())
def test_forward_undoes_inverse(sample: Sample) -> None:
    model, q, v, rng = sample
    unit, _ = units(dynamics.mass_matrix(model, q))
    a = rng.uniform(-2.0, 2.0, model.nv)
    wrenches = {link: rng.normal(size=6) for link in (model.link_names[-1], model.link_names[0])}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(model, q, v, a, pushed)
        again = dynamics.forward_dynamics(model, q, v, tau, pushed)
        # The mass matrix may be ill-conditioned: one or two digits.
        assert relative(again * unit, a * unit) < 100.0 * ROUNDOFF


@law
@given(samples())
def test_torques_are_sums_of_the_terms(sample: Sample) -> None:
    model, q, v, rng = sample
    v_r, a_r = rng.uniform(-2.0, 2.0, (2, model.nv))
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


@law
@given(samples())
def test_wrenches_act_through_the_jacobian(sample: Sample) -> None:
    """tau = M a + C v + g - sum of Jᵀ w, on every link and on several at once."""
    model, q, v, rng = sample
    unit, _ = units(dynamics.mass_matrix(model, q))
    a = rng.uniform(-2.0, 2.0, model.nv)
    wrenches = {link: rng.normal(size=6) for link in model.link_names}
    free = dynamics.inverse_dynamics(model, q, v, a)
    pushed = sum(dynamics.frame_jacobian(model, q, link).T @ w for link, w in wrenches.items())
    tau = dynamics.inverse_dynamics(model, q, v, a, wrenches)
    assert relative((free - tau) / unit, pushed / unit, (np.abs(free) + np.abs(tau)) / unit) < (
        ROUNDOFF
    )


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
    assert relative(terms.M, M) < EXACT
    assert relative(terms.C, C) < EXACT
    assert relative(terms.CTv, C.T @ v) < EXACT
    assert relative(terms.g, g) < EXACT


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
    assert relative(dynamics.inverse_dynamics(model, q, v, a), expected) < EXACT
    assert relative(dynamics.forward_dynamics(model, q, v, expected), a) < EXACT
    # The length of the quaternion says nothing.
    q[3:] *= -3.0
    assert relative(dynamics.inverse_dynamics(model, q, v, a), expected) < EXACT
