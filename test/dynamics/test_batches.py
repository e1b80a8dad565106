"""Batches: threads, first calls and vector lanes give every bit of one state after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numba
import numpy as np
import pytest
from robots import random_tree_urdf, two_joint_urdf

from rbd_control import dynamics
from rbd_control.control import planner
from rbd_control.dynamics import (
    Model,
    Rotor,
    batches,
    dynamics_terms,
    forward_dynamics,
    inverse_dynamics,
)
from rbd_control.dynamics.batches import (
    STATES_FOR_COMPILING,
    STATES_FOR_LANES,
    Kernels,
    evaluate,
    new_vector,
)
from rbd_control.dynamics.lanes import WIDTH
from rbd_control.errors import InputError
from rbd_control.estimation.observers import NOT_FINITE, MomentumBalance
from rbd_control.robot.friction import CoulombViscousFriction

from .helpers import random_q
from .test_mimic_joints import MIMICS, with_mimics

COUNT = 3 * batches.STATES_PER_THREAD + 7


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the numbers of parts that thread pools received."""
    parts = []

    class Pool(ThreadPoolExecutor):
        def map(self, function: Callable[..., Any], items: Sequence[Any]) -> Any:
            parts.append(len(items))
            return super().map(function, items)

    monkeypatch.setattr(batches, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(batches.os, "cpu_count", lambda: 3)
    return parts


def test_split_equals_whole(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.from_urdf(random_tree_urdf(2, 3))
    rng = np.random.default_rng(0)
    q, v, x = rng.normal(size=(3, COUNT, model.nv))
    wrenches = {model.link_names[-1]: rng.normal(size=(COUNT, 6))}

    def everything() -> list[np.ndarray]:
        return [
            *dynamics_terms(model, q, v),
            inverse_dynamics(model, q, v, x, wrenches),
            forward_dynamics(model, q, v, x, wrenches),
        ]

    split = everything()
    assert calls == [3, 3, 3]
    monkeypatch.setattr(batches.os, "cpu_count", lambda: 1)
    for part, whole in zip(split, everything(), strict=True):
        np.testing.assert_array_equal(part, whole)
    assert len(calls) == 3


THREADS = 4


def test_several_threads_may_make_the_first_call() -> None:
    """The thread that compiles ends further compilation, for which the others still wait."""

    @numba.njit
    def doubled(_model: Any, q: Any, result: Any) -> bool:
        for i in range(q.shape[0]):
            result[i] = 2.0 * q[i]
        return True

    model = Model.from_urdf(two_joint_urdf())
    kernels = Kernels(doubled, new_results=new_vector)
    start = Barrier(THREADS)

    def call(number: int) -> list[float]:
        start.wait()
        (result,) = evaluate(kernels, model, None, np.full(model.nq, float(number)))
        return [float(x) for x in result]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(call, range(THREADS)))
    assert results == [[2.0 * number] * model.nq for number in range(THREADS)]
    assert kernels.is_ready
    assert len(doubled.signatures) == 1


COUNTS = (STATES_FOR_LANES, STATES_FOR_LANES + 1, STATES_FOR_LANES + WIDTH - 1)
"""Batches that end with all lanes in use, with one, and with all but one."""

FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "mass_matrix": (dynamics.mass_matrix, 0),
    "dynamics_terms": (dynamics.dynamics_terms, 1),
    "momentum_terms": (dynamics.momentum_terms, 1),
    "gravity_torque": (dynamics.gravity_torque, 0),
    "christoffel_symbols": (dynamics.christoffel_symbols, 0),
    "inverse_dynamics": (dynamics.inverse_dynamics, 2),
    "forward_dynamics": (dynamics.forward_dynamics, 2),
    "slotine_li_torque": (dynamics.slotine_li_torque, 3),
    "regressor": (dynamics.regressor, 3),
}
"""Each function, and how many vectors it takes beside q."""


def models() -> dict[str, Model]:
    tree = random_tree_urdf(3, 8, prismatic=0.3, branching=0.5)
    gravity = (1.0, -2.0, -9.0)
    rotors = {"joint1": Rotor(20.0, 1e-3), "joint4": Rotor(-80.0, 1e-4)}
    return {
        "serial": Model.from_urdf(random_tree_urdf(1, 7, prismatic=0.0, branching=0.0)),
        "tree": Model.from_urdf(tree, gravity=gravity),
        "floating": Model.from_urdf(tree, floating_base=True, gravity=gravity),
        "rotors": Model.from_urdf(tree, rotors=rotors),
        "mimics": Model.from_urdf(with_mimics(random_tree_urdf(7, 9), MIMICS)),
        # The workspace in lanes no longer fits on the stack.
        "large": Model.from_urdf(random_tree_urdf(5, 40)),
    }


MODELS = models()


def states(model: Model, count: int, vectors: int) -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    q = np.array([random_q(model, rng) for _ in range(count)])
    return [q, *rng.uniform(-2.0, 2.0, (vectors, count, model.nv))]


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Let all functions use lanes from now on, however small the batch."""
    model = Model.from_urdf(random_tree_urdf(0, 2))
    for function, vectors in FUNCTIONS.values():
        function(model, *states(model, STATES_FOR_COMPILING, vectors))


def arrays(value: Any) -> tuple[np.ndarray, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lanes_equal_single_states(name: str, model: Model) -> None:
    function, vectors = FUNCTIONS[name]
    for count in COUNTS if model.nv < 20 else COUNTS[1:2]:
        given = states(model, count, vectors)
        half = STATES_FOR_LANES // 2
        parts = [
            arrays(function(model, *(x[first : first + half] for x in given)))
            for first in range(0, count, half)
        ]
        for whole, *pieces in zip(arrays(function(model, *given)), *parts, strict=True):
            np.testing.assert_array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_numbers_in_any_lane_are_refused(bad: float) -> None:
    model = MODELS["serial"]
    for row in (0, WIDTH + 1, COUNTS[1] - 1):
        q, v = states(model, COUNTS[1], 1)
        v[row, 3] = bad
        with pytest.raises(InputError, match=rf"v\[3\] is {bad}"):
            dynamics.dynamics_terms(model, q, v)


def test_planning_in_a_node_compiles_no_lanes() -> None:
    """A node that compiles for seconds while the arm moves would be late with everything."""
    assert 2 * planner._STATES < STATES_FOR_COMPILING


@pytest.mark.parametrize("friction", [None, CoulombViscousFriction])
def test_balance_of_blocks_equals_that_of_samples(friction: Any) -> None:
    model = MODELS["floating"]
    q, v, effort = states(model, COUNTS[1], 2)
    v[3, 2], q[9, 1], effort[40, 0] = np.nan, 1e300, np.inf
    law = friction and friction(*np.random.default_rng(0).uniform(0.1, 1.0, (4, model.nv)))
    balance = MomentumBalance(model, law, effort_gain=1.5, with_gravity=False)
    block = balance.run(q, v, effort)
    for k in range(len(q)):
        one = slice(k, k + 1)
        sample = balance.run(q[one], v[one], effort[one])
        for whole, single in zip(block, sample, strict=True):
            np.testing.assert_array_equal(whole[one], single)
    assert block.quality[3] == NOT_FINITE
