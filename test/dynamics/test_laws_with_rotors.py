"""Laws of mechanics for random robots with rotors and massless links, fixed and floating.

``test_laws.py`` has those of robots whose links all have mass, without rotors.
"""

from __future__ import annotations

import re

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, with_rotors
from rbd_control.errors import ModelError

from .helpers import DIFFERENCE, Array, advance, derivative, random_q, units

ROUNDOFF = 1e-11
"""Fast rotors cost a digit."""


def without_mass(urdf: str, link: str) -> str:
    """Return a description in which a link has no inertial."""
    return re.sub(rf'(<link name="{link}">)<inertial>.*?</inertial>', r"\1", urdf)


def geared(model: Model, rng: np.random.Generator, *, reflected: bool) -> Model:
    """Return a robot with rotors on every other joint, about axes of any direction."""
    rotors = {
        name: Rotor(rng.uniform(-4.0, 4.0), np.diag([2e-3, 3e-3, 4e-3]), rng.normal(size=3), 0.2)
        for name in model.joint_names[::2]
    }
    return with_rotors(model, rotors, reflected=reflected)


@st.composite
def states(draw: st.DrawFn) -> tuple[Model, Array, Array, np.random.Generator]:
    """Draw a robot, positions, velocities, and a generator of further numbers."""
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    joints = draw(st.integers(1, 6), label="joints")
    urdf = random_tree_urdf(seed, joints, branching=0.4, prismatic=0.3)
    for link in draw(st.sets(st.integers(0, joints)), label="massless links"):
        urdf = without_mass(urdf, f"link{link}")
    rng = np.random.default_rng(seed)
    floating, gravity = draw(st.booleans(), label="floating base"), rng.uniform(-10.0, 10.0, 3)
    try:
        model = Model.from_urdf(urdf, floating_base=floating, gravity=gravity, strict=True)
    except ModelError:  # a joint carries nothing
        assume(False)
        raise
    kind = draw(st.sampled_from(["geared", "reflected", "none"]), label="rotors")
    if kind != "none":
        model = geared(model, rng, reflected=kind == "reflected")
    return model, random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv), rng


law = settings(max_examples=40, deadline=None, derandomize=True)


@law
@given(states())
def test_christoffel_symbols(drawn: tuple[Model, Array, Array, np.random.Generator]) -> None:
    """Gamma_ijk + Gamma_jik = dM_ij along coordinate k, symmetric in j and k, and Gamma v = C.

    On a fixed base these two determine Gamma, which then is ½ (dM_ij/dq_k + dM_ik/dq_j -
    dM_jk/dq_i). On a floating base dM is taken along the unit velocities, and pairs of the base's
    velocities are not symmetric.
    """
    model, q, v, _ = drawn
    unit, square = units(dynamics.mass_matrix(model, q))
    Gamma = dynamics.christoffel_symbols(model, q)
    along = np.eye(model.nv)
    dM = derivative(lambda t: dynamics.mass_matrix(model, advance(model, q, along, t)))
    both = Gamma + Gamma.swapaxes(0, 1)
    assert np.abs((both - np.moveaxis(dM, 0, 2)) / square[:, :, None]).max() < DIFFERENCE
    C = dynamics.coriolis_matrix(model, q, v)
    assert np.abs((Gamma @ v - C) / square).max() < ROUNDOFF
    other = (Gamma - Gamma.swapaxes(1, 2)) / unit[:, None, None]
    if model.floating_base:
        other[:, :6, :6] = 0.0
    assert np.abs(other).max() < ROUNDOFF * unit.max()


@law
@given(states())
def test_all_functions_agree(drawn: tuple[Model, Array, Array, np.random.Generator]) -> None:
    model, q, v, rng = drawn
    a, v_r = rng.uniform(-2.0, 2.0, (2, model.nv))
    M, C, CTv, g = dynamics.dynamics_terms(model, q, v)
    unit, _ = units(M)
    pi = dynamics.inertial_parameters(model)
    tau = dynamics.inverse_dynamics(model, q, v, a)
    law_torque = dynamics.slotine_li_torque(model, q, v, v_r, a)
    pairs = {
        "M a + C v + g": (M @ a + C @ v + g, tau),
        "M a + C v_r + g": (M @ a + C @ v_r + g, law_torque),
        "Y pi": (dynamics.regressor(model, q, v, v_r, a) @ pi, law_torque),
        "C^T v": (C.T @ v, CTv),
        "C^T v alone": (dynamics.coriolis_transpose_product(model, q, v), CTv),
        "g": (dynamics.gravity_torque(model, q), g),
        "p": (dynamics.momentum(model, q, v), M @ v),
        "M a": (M @ dynamics.forward_dynamics(model, q, v, tau), M @ a),
    }
    size = np.abs(tau / unit).max() + np.abs(M @ a / unit).max() + np.abs(law_torque / unit).max()
    wrong = {name: np.abs((x - y) / unit).max() / size for name, (x, y) in pairs.items()}
    assert {name: error for name, error in wrong.items() if not error < ROUNDOFF} == {}
