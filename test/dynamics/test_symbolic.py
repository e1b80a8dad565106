"""Dynamics as expressions: a published table, and the numeric sweeps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf
from urdf_texts import inertial, joint, link, robot

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


def test_table_2_of_ew21() -> None:
    """Algorithm 2 and the partial derivatives of M, on a binary tree."""
    from bench.tables.ew21_symbolic import by_algorithm_2, by_partials, problem

    algorithm, partials = by_algorithm_2(*problem(5)), by_partials(*problem(5))
    form = NormalForm([*algorithm.flat, *partials.flat])
    equal = [form(x) == form(y) for x, y in zip(algorithm.flat, partials.flat, strict=True)]
    assert all(equal)
    assert any(form(x) for x in algorithm.flat)


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
    hinge = joint("joint1", "link0", "link1", axis='<axis xyz="0.6 0 0.8"/>', xyz="0 0 0")
    body = inertial("1", "1", "1", "1")
    text = robot(link("link0", body), link("link1", body), hinge)
    model = Model.from_urdf(text, floating_base=True)
    com, inertia = [0.1, -0.2, 0.3], [[0.3, 0.02, 0.0], [0.02, 0.4, -0.01], [0.0, -0.01, 0.5]]
    loaded = model.with_payload("link1", 0.7, com, inertia)
    return loaded, symbolic_dynamics(loaded)


@pytest.mark.parametrize("name", ["tree", "floating"])
def test_numeric_functions(name: str, request: pytest.FixtureRequest) -> None:
    model, terms = request.getfixturevalue(name)
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
        ({"q": [sp.Symbol("x")]}, "q has shape (1,) but the model has nq = 2"),
        ({"q": ["q1", "q2"]}, "q is ['q1', 'q2']; give expressions or numbers"),
        ({"v": [0.0, np.nan]}, "give expressions or finite numbers"),
        ({"origins": {"elbw": (0, 0, 0)}}, "no joint 'elbw'; joints are shoulder, elbow"),
        ({"bodies": {"upper": sp.Symbol("x")}}, "bodies: 'upper' is x; give mass, com, inertia"),
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
