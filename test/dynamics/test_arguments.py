"""Arguments of every public function: leading axes, memory layouts, and rejected values."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.dynamics.arguments import _first_not_finite
from rbd_control.dynamics.momentum import _momentum_terms
from rbd_control.errors import InputError

from .helpers import Array, random_q

LINK = "link3"
WRENCH = {LINK: [0.1, -0.2, 0.3, 4.0, -5.0, 6.0]}

VECTORS = {"v", "a", "tau", "v_r", "a_r", "v_a"}


def functions_of_a_state() -> Iterator[tuple[str, tuple[Callable[..., Any], tuple[str, ...]]]]:
    """Every public function of a model, q and joint-space vectors, and its arguments' names."""
    for name in dynamics.__all__:
        function = getattr(dynamics, name)
        if not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters
        fixed = {"link": LINK, "wrenches": WRENCH}
        fixed = {key: value for key, value in fixed.items() if key in parameters}
        names = [key for key, p in parameters.items() if p.default is p.empty and key not in fixed]
        if names[:2] == ["model", "q"] and VECTORS.issuperset(names[2:]):
            yield name, (functools.partial(function, **fixed), tuple(names[1:]))


FUNCTIONS = dict(functions_of_a_state())

BASES = {
    "torque_velocity_derivative": ["fixed"],
    "decoupled_dynamics": ["floating"],
    "nullify_momentum": ["floating"],
    "mass_matrix_gdahj": ["chain"],
    "task_space_inertia": ["floating"],
    "task_space_terms": ["floating"],
}
"""The functions that are of one kind of base only, or of links that can move any way at all."""

CASES = [(name, base) for name in FUNCTIONS for base in BASES.get(name, ["fixed", "floating"])]
every_function = pytest.mark.parametrize(("name", "model"), CASES, indirect=["model"])


@pytest.fixture(scope="module", params=["fixed", "floating"])
def model(request: pytest.FixtureRequest) -> Model:
    chain = {"branching": 0.0, "prismatic": 0.0} if request.param == "chain" else {"prismatic": 0.3}
    urdf = random_tree_urdf(12, 5, fixed=0.5, **chain)
    return Model.from_urdf(urdf, floating_base=request.param == "floating")


def arguments(model: Model, names: tuple[str, ...], shape: tuple[int, ...] = ()) -> list[Array]:
    rng = np.random.default_rng(13)
    count = int(np.prod(shape, dtype=int))
    q = np.array([random_q(model, rng) for _ in range(count)]).reshape(*shape, model.nq)
    return [q, *(rng.uniform(-2.0, 2.0, (*shape, model.nv)) for _ in names[1:])]


def results(value: Any) -> tuple[Array, ...]:
    return tuple(map(np.asarray, value if isinstance(value, tuple) else (value,)))


def equal(value: Any, expected: Any) -> bool:
    pairs = zip(results(value), results(expected), strict=True)
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs)


# --- Leading axes --------------------------------------------------------------------------------


@every_function
def test_batch_is_the_loop_bit_for_bit(name: str, model: Model) -> None:
    function, names = FUNCTIONS[name]
    batch = arguments(model, names, (2, 3))
    together = results(function(model, *batch))
    for index in np.ndindex(2, 3):
        alone = function(model, *(x[index] for x in batch))
        assert equal(tuple(x[index] for x in together), alone)


def test_leading_axes_broadcast(model: Model) -> None:
    q, v = arguments(model, ("q", "v"), (4, 3))
    for one_q in (q[0, 0], q[:, :1]):
        spread = np.broadcast_to(one_q, q.shape).copy()
        expected = dynamics.dynamics_terms(model, spread, v)
        assert equal(dynamics.dynamics_terms(model, one_q, v), expected)
    with pytest.raises(InputError, match="leading axes do not broadcast"):
        dynamics.dynamics_terms(model, q, v[:2])


# --- Inputs --------------------------------------------------------------------------------------


@every_function
def test_no_input_is_changed_or_returned(name: str, model: Model) -> None:
    function, names = FUNCTIONS[name]
    given = arguments(model, names, (3,))
    before = [x.copy() for x in given], [x.copy() for x in model.arrays]
    values = results(function(model, *given))
    after = given, model.arrays
    for old, new in zip(before, after, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(old, new, strict=True))
    assert not any(np.shares_memory(x, y) for x in given for y in values)


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "list": lambda x: x.tolist(),
    "float32": lambda x: x.astype(np.float32),
    "integers": lambda x: np.round(x).astype(np.int32) + 1,
    "big-endian": lambda x: x.astype(">f8"),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "columns first": np.asfortranarray,
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "unaligned": lambda x: np.frombuffer(b"-" + x.tobytes(), offset=1).reshape(x.shape),
}


def test_any_layout_will_do_and_compiles_nothing(model: Model) -> None:
    """A call compiles nothing, because compilation takes seconds."""
    q, v = arguments(model, ("q", "v"), (3,))
    for layout in LAYOUTS.values():
        given = layout(q), layout(v)
        plain = [np.array(x, dtype=np.float64, order="C") for x in given]
        assert equal(dynamics.momentum_terms(model, *given), dynamics.momentum_terms(model, *plain))
    assert len(_momentum_terms.signatures) == 1
    assert len(_first_not_finite.signatures) == 1


# --- Results into given arrays -------------------------------------------------------------------

WITH_OUT = [
    case for case in CASES if "out" in inspect.signature(getattr(dynamics, case[0])).parameters
]
with_out = pytest.mark.parametrize(("name", "model"), WITH_OUT, indirect=["model"])


def filled(value: Any) -> Any:
    """Arrays of the shapes of a result, full of NaN, as ``out`` takes them."""
    if isinstance(value, tuple):
        return type(value)(*(np.full(x.shape, np.nan) for x in value))  # type: ignore[arg-type]
    return np.full(value.shape, np.nan)


@pytest.mark.parametrize("shape", [(), (2, 0), (2, 2)])
@with_out
def test_results_go_into_out(name: str, shape: tuple[int, ...], model: Model) -> None:
    function, names = FUNCTIONS[name]
    given = arguments(model, names, shape)
    expected = function(model, *given)
    for _ in range(2):  # the second call of a single state takes the shortest way
        out = filled(expected)
        value = function(model, *given, out=out)
        assert equal(out, expected)
        for given_array, returned in zip(results(out), results(value), strict=True):
            assert given_array is returned
    listed = [x.tolist() for x in given]
    if 0 not in shape:
        out = filled(expected)
        function(model, *listed, out=out)
        assert equal(out, expected)


@with_out
def test_out_that_cannot_take_the_result_is_refused(name: str, model: Model) -> None:
    function, names = FUNCTIONS[name]
    given = arguments(model, names)
    expected = function(model, *given)
    last = results(expected)[-1]
    frozen = np.zeros(last.shape)
    frozen.flags.writeable = False
    cases = [
        (np.zeros((1, *last.shape)), f"out has shape {(1, *last.shape)} but"),
        (np.zeros(last.shape, dtype=np.float32), "array of float32"),
        (np.zeros((*last.shape[:-1], 2 * last.shape[-1]))[..., ::2], "C-contiguous"),
        (frozen, "writable"),
    ]
    for bad, words in cases:
        out = (*results(expected)[:-1], bad) if isinstance(expected, tuple) else bad
        with pytest.raises(InputError, match=re.escape(words)):
            function(model, *given, out=out)


@pytest.mark.parametrize("name", ["inverse_dynamics", "dynamics_terms"])
def test_single_states_refuse_what_batches_refuse(name: str, model: Model) -> None:
    """The shortest way checks sizes and numbers, too, whatever was computed before."""
    function, names = FUNCTIONS[name]
    good = arguments(model, names)
    function(model, *good)
    for i, argument in enumerate(names):
        value = good[i]
        for wrong in (value[:-1], np.append(value, 0.0), np.concatenate([value, value])):
            given = [*good[:i], wrong, *good[i + 1 :]]
            message = refusal(lambda given=given: function(model, *given))
            assert message.startswith(f"{argument} has shape {wrong.shape}")
        for bad in (np.nan, np.inf):
            given = [x.copy() for x in good]
            given[i][1] = bad
            message = refusal(lambda given=given: function(model, *given))
            assert message == f"{argument}[1] is {bad}; give finite numbers"
    twice = [np.concatenate([x, x]) for x in good]
    out = filled(function(model, *good))
    for given_out in (None, out):
        message = refusal(lambda o=given_out: function(model, *twice, out=o))
        assert message.startswith("q has shape")
    assert all(np.isnan(x).all() for x in results(out))


def test_results_of_single_states_are_independent(model: Model) -> None:
    """A caller may keep or change the terms of a state while others are computed."""
    q, v = arguments(model, ("q", "v"))
    first = dynamics.dynamics_terms(model, q, v)
    kept = [x.copy() for x in first]
    second = dynamics.dynamics_terms(model, q, 2.0 * v)
    assert all(np.array_equal(x, y) for x, y in zip(first, kept, strict=True))
    first.M[:], first.g[:] = np.nan, np.nan
    assert np.array_equal(first.C, kept[1])
    assert np.array_equal(first.CTv, kept[2])
    assert all(np.isfinite(x).all() for x in second)
    assert all(x.flags.carray and x.dtype == np.float64 for x in second)


# --- What is refused -----------------------------------------------------------------------------


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@every_function
def test_bad_arguments_are_refused(name: str, model: Model) -> None:
    function, names = FUNCTIONS[name]
    for i, argument in enumerate(names):
        given = arguments(model, names, (3,))
        given[i][1, 2] = np.nan
        assert f"{argument}[2] is nan" in refusal(lambda given=given: function(model, *given))
        size = f"nq = {model.nq}" if argument == "q" else f"nv = {model.nv}"
        given = arguments(model, names)
        for bad in (given[i][:-1], given[i][:, None], 0.0):
            wrong = [*given[:i], bad, *given[i + 1 :]]
            message = refusal(lambda wrong=wrong: function(model, *wrong))
            assert message == f"{argument} has shape {np.shape(bad)} but the model has {size}"


# --- Links that do not move ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.0, 1e-170, 1e-156, 1e156])
def test_a_quaternion_that_has_no_direction_is_refused_at_every_call(size: float) -> None:
    """After a good call it gave NaN without an error."""
    model = Model.from_urdf(random_tree_urdf(0, 3), floating_base=True)
    good, bad = np.zeros(model.nq), np.zeros(model.nq)
    good[6], bad[6] = 1.0, size
    for _ in range(2):
        with pytest.raises(InputError, match="quaternion"):
            dynamics.mass_matrix(model, bad)
        assert np.isfinite(dynamics.mass_matrix(model, good)).all()
