"""Functions compiled for one model return the results of the plain ones, exactly or nearly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from robots import LOCKED, random_tree_urdf, urdf_path

from dynamics.helpers import random_q, relative, tree
from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, machine_code
from rbd_control.dynamics.expression_graph import CALL, CALLS, CONSTANT, INPUT, NEGATE
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.dynamics.machine_code import Expressions, Program

# The compiler may order or contract sums differently when it knows the constants.
ROUNDING = 1e-13


@pytest.fixture(
    scope="module",
    params=[{}, {"rotors": {"joint1": Rotor(20.0, 1e-3)}}, {"floating_base": True}],
    ids=["fixed", "rotor", "floating"],
)
def model(request: pytest.FixtureRequest) -> Model:
    return Model.from_urdf(random_tree_urdf(1, 4, branching=0.4, prismatic=0.3), **request.param)


FUNCTIONS: dict[str, tuple[int, tuple[int, ...]]] = {
    "mass_matrix": (0, (2,)),
    "dynamics_terms": (1, (2, 2, 1, 1)),
    "momentum_terms": (1, (1, 1, 1)),
    "gravity_torque": (0, (1,)),
    "christoffel_symbols": (0, (3,)),
    "inverse_dynamics": (2, (1,)),
    "forward_dynamics": (2, (1,)),
    "slotine_li_torque": (3, (1,)),
}
"""Each function, the vectors it takes beside q, and the number of axes of its results."""


def test_equals_the_plain_functions(model: Model) -> None:
    rng = np.random.default_rng(0)
    q, vectors = rng.normal(size=model.nq), rng.normal(size=(3, model.nv))
    frozen = dynamics.freeze(model)
    for name, (count, axes) in FUNCTIONS.items():
        given = (q, *vectors[:count])
        expected = getattr(dynamics, name)(model, *given)
        results = [np.full((model.nv,) * n, np.nan) for n in axes]
        getattr(frozen, name)(*given, *results)
        references = expected if isinstance(expected, tuple) else (expected,)
        for result, reference in zip(results, references, strict=True):
            error = np.abs(result - reference).max()
            assert error <= ROUNDING * max(np.abs(reference).max(), 1.0), name


def test_two_models_do_not_mix() -> None:
    one, other = (Model.from_urdf(random_tree_urdf(seed, 3)) for seed in (7, 8))
    q = np.array([0.1, 0.2, 0.3])
    for m in (one, other, one):
        M = np.empty((3, 3))
        dynamics.freeze(m).mass_matrix(q, M)
        np.testing.assert_allclose(M, dynamics.mass_matrix(m, q), rtol=1e-12)


ROUNDOFF = 1e-12
"""Roundoff of a few thousand operations in another order, relative to the largest entry."""

ROBOTS: dict[str, Callable[[], Model]] = {
    "panda": lambda: Model.from_urdf(urdf_path("panda"), locked=LOCKED["panda"]),
    "ur5": lambda: Model.from_urdf(urdf_path("ur5")),
    "tiago_pro": lambda: Model.from_urdf(urdf_path("tiago_pro")),  # with mimic joints
    "talos": lambda: Model.from_urdf(urdf_path("talos"), floating_base=True),
}


def arguments(name: str, model: Model, rng: np.random.Generator, *batch: int) -> list[np.ndarray]:
    states = [random_q(model, rng) for _ in range(math.prod(batch))]
    q = np.reshape(states, (*batch, model.nq))
    return [q, *rng.normal(size=(FUNCTIONS[name][0], *batch, model.nv))]


def difference(results: Any, expected: Any) -> float:
    if isinstance(expected, np.ndarray):
        results, expected = (results,), (expected,)
    pairs = zip(results, expected, strict=True)
    # Where the Christoffel symbols are zero, both are roundoff.
    return max(float(np.abs(x - y).max() / max(np.abs(y).max(), 1.0)) for x, y in pairs)


@pytest.mark.parametrize(
    ("robot", "name", "straight"),
    [
        ("panda", "dynamics_terms", True),
        ("panda", "forward_dynamics", True),
        ("ur5", "dynamics_terms", True),
        ("ur5", "christoffel_symbols", True),
        ("tiago_pro", "inverse_dynamics", True),
        ("tiago_pro", "dynamics_terms", False),
        ("talos", "dynamics_terms", False),
    ],
)
def test_robots_equal_the_plain_functions(robot: str, name: str, straight: bool) -> None:
    """Without straight-line code the function has too many operations for it."""
    model, rng = ROBOTS[robot](), np.random.default_rng(2)
    assert (Program(model, name).expressions() is not None) == straight
    frozen, plain = getattr(dynamics.freeze(model), name), getattr(dynamics, name)
    for batch in ((), (1,), (WIDTH + 3,)):  # a part of the lanes is left
        given = arguments(name, model, rng, *batch)
        assert difference(frozen(*given), plain(model, *given)) < ROUNDOFF


def value(expressions: Expressions, given: list[np.ndarray]) -> list[np.ndarray]:
    """Compute expressions at one state with numpy, as their nodes say."""
    operations = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    values: dict[int, Any] = {}
    graph, inputs = expressions.graph, {f"x{i}": x for i, x in enumerate(given)}
    for node in expressions.plan.order:
        operation, *rest = graph.nodes[node]
        x = [values[operand] for operand in graph.operands(node)]
        if operation == INPUT:
            values[node] = inputs[str(rest[0])][rest[1]]
        elif operation == CONSTANT:
            values[node] = rest[0]
        elif operation == CALL:
            values[node] = CALLS[str(rest[0])](*x)
        else:
            values[node] = -x[0] if operation == NEGATE else operations[str(operation)](*x)
    return [np.array([values[n] for n in array]) for array in expressions.arrays[len(given) :]]


@pytest.mark.parametrize("name", ["dynamics_terms", "forward_dynamics"])
@pytest.mark.parametrize("robot", ["tiago_pro", "talos"])
def test_expressions_of_large_robots_equal_the_plain_functions(
    robot: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "LARGEST", math.inf)
    model = ROBOTS[robot]()
    given = arguments(name, model, np.random.default_rng(4))
    expected = getattr(dynamics, name)(model, *given)
    flat = [x.ravel() for x in (expected if isinstance(expected, tuple) else (expected,))]
    assert difference(value(Expressions(Program(model, name)), given), flat) < ROUNDOFF


def test_expressions_of_200_random_trees_equal_the_plain_functions() -> None:
    names = list(FUNCTIONS)
    for seed in range(200):
        rotors = ("", "geared", "reflected")[seed % 3]
        model = tree(seed, floating=seed % 5 == 0, rotors=rotors, joints=2 + seed % 6)
        for name in (names[seed % 8], names[(seed // 8) % 8]):
            given = arguments(name, model, np.random.default_rng(seed))
            expressions = Program(model, name).expressions()
            assert expressions is not None
            expected = getattr(dynamics, name)(model, *given)
            flat = [x.ravel() for x in (expected if isinstance(expected, tuple) else (expected,))]
            # Ratios of gears up to 60 enter with their second and third powers, which cancel.
            limit = 1e-10 if rotors == "geared" else ROUNDOFF
            assert difference(value(expressions, given), flat) < limit, (seed, name)


def test_batches_with_leading_axes_from_python_and_from_compiled_code() -> None:
    model = tree(3)
    n = model.nv
    frozen = dynamics.freeze(model)
    q, v = arguments("dynamics_terms", model, np.random.default_rng(0), 2, 3, 5)
    expected = dynamics.dynamics_terms(model, q, v)
    terms = frozen.dynamics_terms(q, v)
    assert isinstance(terms, dynamics.DynamicsTerms)
    assert difference(terms, expected) < ROUNDOFF
    given = [np.full((2, 3, 5, *rest), np.nan) for rest in ((n, n), (n, n), (n,), (n,))]
    assert frozen.dynamics_terms(q, v, *given) is None
    assert difference(given, expected) < ROUNDOFF
    assert frozen.mass_matrix(q[:0]).shape == (0, 3, 5, n, n)

    @njit
    def last(function, q, v):  # type: ignore[no-untyped-def]
        for k in range(q.shape[0]):
            terms = function(q[k], v[k])
        return terms.M, function(q, v).g

    M, g = last(frozen.dynamics_terms, q[0, 0], v[0, 0])
    assert relative(M, expected.M[0, 0, -1]) < ROUNDOFF
    assert relative(g, expected.g[0, 0]) < ROUNDOFF


def test_angles_over_many_turns() -> None:
    """Beyond 1e5 rad the C library computes the sine; there the others must not change."""
    model = tree(5)
    q = random_q(model, np.random.default_rng(1)) * np.ones((3 * WIDTH, 1))
    q[1, 1], q[WIDTH + 2, 2], q[-1, 0] = 3e5, -1e7, 99999.0
    M = dynamics.mass_matrix(model, q)
    frozen = dynamics.freeze(model)
    assert relative(frozen.mass_matrix(q), M) < ROUNDOFF
    assert relative(frozen.mass_matrix(q[1]), M[1]) < ROUNDOFF


def test_arrays_of_other_sizes_or_types_are_refused() -> None:
    model = tree(3)
    n = model.nv
    frozen = dynamics.freeze(model)
    for q, M in (
        (np.zeros(n - 1), np.zeros((n, n))),
        (np.zeros(n), np.zeros((n, n - 1))),
        (np.zeros((4, n)), np.zeros((3, n, n))),
        (np.zeros((4, n)), np.zeros((5, n, n))),
    ):
        before = M.copy()
        with pytest.raises(ValueError, match="mass_matrix: the arrays do not have the sizes"):
            frozen.mass_matrix(q, M)
        np.testing.assert_array_equal(M, before)
    fixed = np.zeros((n, n))
    fixed.flags.writeable = False
    for q, M in (
        (np.zeros(n, np.float32), np.zeros((n, n))),
        (np.zeros(2 * n)[::2], np.zeros((n, n))),
        (np.zeros((4, n)), np.zeros((n, n))),
        (np.zeros(n), fixed),
    ):
        with pytest.raises(TypingError, match="mass_matrix: argument"):
            frozen.mass_matrix(q, M)


def test_a_large_robot_has_no_result_for_a_number_that_is_not_finite() -> None:
    """The compiled loops refuse the state, and then wrote nothing into the caller's arrays."""
    model = tree(1, joints=26)
    assert Program(model, "dynamics_terms").expressions() is None
    frozen = dynamics.freeze(model)
    q, v = np.zeros((2, model.nv)), np.zeros((2, model.nv))
    results = frozen.dynamics_terms(q, v)
    q[1, 4] = math.nan
    frozen.dynamics_terms(q, v, *results)
    frozen.dynamics_terms(q[1], v[1], *(one := [np.zeros(x.shape[1:]) for x in results]))
    assert all(np.isnan(x).all() for x in (*results, *one))
