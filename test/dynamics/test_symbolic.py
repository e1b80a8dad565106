"""Dynamics as expressions: a textbook robot, a published table, and the numeric sweeps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    Rotor,
    SymbolicTerms,
    christoffel_symbols,
    dynamics_terms,
    symbolic_dynamics,
)
from rbd_control.dynamics.papers.normal_form import NormalForm
from rbd_control.errors import InputError

from .helpers import random_q, relative
from .test_laws import DOUBLE_PENDULUM

sp: Any = pytest.importorskip("sympy")

q1, q2, q3 = sp.symbols("q1:4", real=True)
v1, v2, v3 = sp.symbols("v1:4", real=True)
gamma = sp.Symbol("gamma")


def chain(*joints: str) -> str:
    """URDF of links 0, 1, ... on joints such as "revolute 0 0 1", all placed at the link before."""
    unit = '<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    parts = [
        f'<link name="link{i}"><inertial>{unit}</inertial></link>' for i in range(len(joints) + 1)
    ]
    for i, (kind, axis) in enumerate((joint.split(maxsplit=1) for joint in joints), start=1):
        parts.append(
            f'<joint name="joint{i}" type="{kind}"><axis xyz="{axis}"/>'
            f'<parent link="link{i - 1}"/><child link="link{i}"/>'
            f'<limit lower="-1" upper="1" velocity="1" effort="1"/></joint>'
        )
    return "".join(['<robot name="chain">', *parts, "</robot>"])


def planar_arm() -> SymbolicTerms:
    m1, m2, l1, a1, a2, I1, I2 = sp.symbols("m1 m2 l1 a1 a2 I1 I2")
    bodies = {
        "upper": (m1, (a1, 0, 0), sp.diag(0, I1, 0)),
        "lower": (m2, (a2, 0, 0), sp.diag(0, I2, 0)),
    }
    return symbolic_dynamics(
        Model.from_urdf(DOUBLE_PENDULUM),
        bodies=bodies,
        origins={"elbow": (l1, 0, 0)},
        gravity=(0, 0, -gamma),
    )


# --- Laws ----------------------------------------------------------------------------------------


def test_table_2_of_ew21() -> None:
    """Algorithm 2 and the partial derivatives of M, on a binary tree."""
    from bench.tables.ew21_symbolic import by_algorithm_2, by_partials, problem

    algorithm, partials = by_algorithm_2(*problem(5)), by_partials(*problem(5))
    form = NormalForm([*algorithm.flat, *partials.flat])
    equal = [form(x) == form(y) for x, y in zip(algorithm.flat, partials.flat, strict=True)]
    assert all(equal)
    assert any(form(x) for x in algorithm.flat)


# --- Textbooks -----------------------------------------------------------------------------------


def test_planar_arm() -> None:
    """The result equals the equations of Siciliano et al., Robotics (2009), section 7.3.2."""
    m1, m2, l1, a1, a2, I1, I2 = sp.symbols("m1 m2 l1 a1 a2 I1 I2")
    terms = planar_arm()
    m_12 = I2 + m2 * a2**2 + m2 * l1 * a2 * sp.cos(q2)
    m_11 = I1 + m1 * a1**2 + I2 + m2 * (l1**2 + a2**2 + 2 * l1 * a2 * sp.cos(q2))
    h = -m2 * l1 * a2 * sp.sin(q2)
    M = sp.Matrix([[m_11.expand(), m_12], [m_12, I2 + m2 * a2**2]])
    C = sp.Matrix([[h * v2, h * (v1 + v2)], [-h * v1, 0]])
    assert (terms.M, terms.C) == (M, C)
    assert terms.Gamma == sp.Array([[[0, h], [h, h]], [[-h, 0], [0, 0]]])
    joined = gamma * m2 * a2 * sp.cos(q1 + q2)
    g = [gamma * (m1 * a1 + m2 * l1) * sp.cos(q1) + joined, joined]
    assert [sp.expand(sp.trigsimp(x)) for x in terms.g] == [sp.expand(x) for x in g]


# --- The numeric sweeps --------------------------------------------------------------------------

# Numbers of the model are cut to 15 digits: half a unit in the last is up to 5e-15 of them, and
# some dozen of them meet in an entry.
DIGITS = 1e-12

TREE = random_tree_urdf(16, 3, prismatic=0.5, branching=0.5)


@pytest.fixture(scope="module")
def tree() -> tuple[Model, SymbolicTerms]:
    """Return a tree with a branch, a prismatic joint and two rotors."""
    rotors = {"joint0": Rotor(5.0, 0.01), "joint2": Rotor(-3.0, 0.02, axis=[1, 2, 3], mass=0.4)}
    model = Model.from_urdf(TREE, rotors=rotors)
    assert model.arrays.parent[:3].tolist() == [-1, 0, 0]
    assert set(model.arrays.joint_type.tolist()) == {0, 1}
    return model, symbolic_dynamics(model)


@pytest.fixture(scope="module")
def floating() -> tuple[Model, SymbolicTerms]:
    model = Model.from_urdf(chain("revolute 0.6 0 0.8"), floating_base=True)
    com, inertia = [0.1, -0.2, 0.3], [[0.3, 0.02, 0.0], [0.02, 0.4, -0.01], [0.0, -0.01, 0.5]]
    loaded = model.with_payload("link1", 0.7, com, inertia)
    return loaded, symbolic_dynamics(loaded)


@pytest.mark.parametrize("robot", ["tree", "floating"])
def test_numeric_functions(robot: str, request: pytest.FixtureRequest) -> None:
    model, terms = request.getfixturevalue(robot)
    arguments = [*terms.q, *terms.v]
    functions = [sp.lambdify(arguments, x.tolist()) for x in terms[2:]]
    rng = np.random.default_rng(20)
    for _ in range(3):
        q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
        M, C, CTv, g, Gamma = (np.array(function(*q, *v)) for function in functions)
        expected = dynamics_terms(model, q, v)
        assert relative(M, expected.M) < DIGITS
        assert relative(C, expected.C) < DIGITS
        assert relative(CTv[:, 0], expected.CTv) < DIGITS
        assert relative(g[:, 0], expected.g) < DIGITS
        assert relative(Gamma, christoffel_symbols(model, q)) < DIGITS


# --- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": [q1]}, "q has shape (1,) but the model has nq = 2"),
        ({"q": ["q1", "q2"]}, "q is ['q1', 'q2']; give expressions or numbers"),
        ({"v": [0.0, np.nan]}, "give expressions or finite numbers"),
        ({"origins": {"elbw": (0, 0, 0)}}, "no joint 'elbw'; joints are shoulder, elbow"),
        ({"bodies": {"upper": gamma}}, "bodies: 'upper' is gamma; give mass, com, inertia"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        symbolic_dynamics(Model.from_urdf(DOUBLE_PENDULUM), **arguments)
    assert message in str(caught.value)


def test_without_sympy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(ImportError, match="pip install sympy"):
        symbolic_dynamics(Model.from_urdf(DOUBLE_PENDULUM))
