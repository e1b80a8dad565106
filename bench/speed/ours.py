"""Contestants of this package: functions called from Python, for a batch, frozen, and in a loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from inspect import signature
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit

from bench.speed.measure import Run, from_python
from bench.speed.mechanisms import STATE_COUNT, Mechanism, member
from bench.speed.quantities import Column, Contestant, Quantity, Results
from rbd_control.dynamics import (
    FrozenDynamics,
    Model,
    christoffel_symbols,
    coriolis_matrix,
    dynamics_terms,
    forward_dynamics,
    freeze,
    inverse_dynamics,
    mass_matrix,
    mass_matrix_gdahj,
    slotine_li_torque,
)
from rbd_control.dynamics.batches import STATES_FOR_COMPILING
from rbd_control.dynamics.fused import fma
from rbd_control.dynamics.lanes import WIDTH, get_lane
from rbd_control.dynamics.machine_code import Program
from rbd_control.dynamics.memory import lane_scratch

PLAIN: dict[Quantity, Callable[..., Any]] = {
    Quantity.MASS: mass_matrix,
    Quantity.CORIOLIS: coriolis_matrix,
    Quantity.TERMS: dynamics_terms,
    Quantity.CHRISTOFFEL: christoffel_symbols,
    Quantity.INVERSE: inverse_dynamics,
    Quantity.FORWARD: forward_dynamics,
    Quantity.ROTORS: forward_dynamics,
    Quantity.SLOTINE_LI: slotine_li_torque,
    Quantity.GDAHJ: mass_matrix_gdahj,
}

FROZEN: dict[Quantity, str] = {
    Quantity.MASS: "mass_matrix",
    Quantity.CORIOLIS: "dynamics_terms",
    Quantity.TERMS: "dynamics_terms",
    Quantity.CHRISTOFFEL: "christoffel_symbols",
    Quantity.INVERSE: "inverse_dynamics",
    Quantity.FORWARD: "forward_dynamics",
    Quantity.ROTORS: "forward_dynamics",
    Quantity.SLOTINE_LI: "slotine_li_torque",
}

BATCH_BYTES = 1 << 20
"""Largest size of the results of a batch [bytes], which fits in the cache of one core."""


def plain(mechanism: Mechanism, quantity: Quantity) -> Contestant:
    """Return the public function of a quantity as a contestant, with one state per call."""
    function, model = PLAIN[quantity], _model(mechanism, quantity)
    inputs = mechanism.states.inputs(quantity)

    def result() -> Results:
        return _shown(quantity, function(model, *(array[0] for array in inputs)))

    return Contestant(from_python(function, (model,), inputs), result)


def batch(mechanism: Mechanism, quantity: Quantity) -> Contestant:
    """Return the public function of a quantity as a contestant, with many states per call.

    The batch is small enough to be computed on one core.

    The results go into the same arrays in every call, as Pinocchio's go into its ``data``.
    """
    function, model = PLAIN[quantity], _model(mechanism, quantity)
    inputs = mechanism.states.inputs(quantity)
    _compile_lanes(function, len(inputs))
    one = function(model, *(array[0] for array in inputs))
    size = sum(array.nbytes for array in (one if isinstance(one, tuple) else (one,)))
    count = max(1, min(STATE_COUNT, BATCH_BYTES // size))
    arguments = (model, *(array[:count] for array in inputs))
    out = function(*arguments)
    call = partial(function, out=out) if "out" in signature(function).parameters else function

    def run(calls: int) -> float:
        batches = -(-calls // count)
        start = perf_counter()
        for _ in range(batches):
            call(*arguments)
        return (perf_counter() - start) * calls / (batches * count)

    def result() -> Results:
        states = function(*arguments)
        first = tuple(x[0] for x in states) if isinstance(states, tuple) else states[0]
        return _shown(quantity, first)

    return Contestant(run, result)


@cache
def _compile_lanes(function: Callable[..., Any], inputs: int) -> None:
    """Call ``function`` with a batch that is large enough to compile its kernel in vector lanes."""
    model = member("chain", 2).model
    function(model, *np.ones((inputs, STATES_FOR_COMPILING, model.nv)))


def frozen(
    mechanism: Mechanism, quantity: Quantity, functions: FrozenDynamics
) -> dict[Column, Contestant]:
    """Return a frozen function as contestants: from Python, in a compiled loop, and for a batch.

    A fourth contestant is the limit of the core: as many multiply-adds as straight-line code has,
    independent of each other and in lanes. It is absent if the function has no such code.

    Args:
        mechanism: the mechanism.
        quantity: a key of :data:`FROZEN`.
        functions: functions compiled for the model of the mechanism, from :func:`freeze_all`.
    """
    function = getattr(functions, FROZEN[quantity])
    inputs = mechanism.states.inputs(quantity)
    program = Program(functions.model, FROZEN[quantity])
    shapes = program.shapes[program.inputs :]
    outputs = tuple(np.full(shape, np.nan) for shape in shapes)
    count = max(1, min(STATE_COUNT, BATCH_BYTES // sum(array.nbytes for array in outputs)))
    batch = [array[:count] for array in inputs]
    batched = tuple(np.full((count, *shape), np.nan) for shape in shapes)
    loop = _LOOPS[len(inputs)]

    def looped(calls: int) -> float:
        start = perf_counter()
        loop(function, calls, *inputs, outputs)
        return perf_counter() - start

    def in_batches(calls: int) -> float:
        batches = -(-calls // count)
        start = perf_counter()
        for _ in range(batches):
            function(*batch, *batched)
        return (perf_counter() - start) * calls / (batches * count)

    def result(run: Run, arrays: tuple[np.ndarray, ...]) -> Results:
        for array in arrays:
            array.fill(np.nan)
        run(1)
        first = outputs if arrays is outputs else tuple(array[0] for array in arrays)
        if quantity is Quantity.CORIOLIS:
            return _shown(quantity, first[1])
        return _shown(quantity, first if len(first) > 1 else first[0])

    called = from_python(function, (), inputs, outputs)
    found = {
        Column.FROZEN: Contestant(called, lambda: result(called, outputs)),
        Column.LOOP: Contestant(looped, lambda: result(looped, outputs)),
        Column.FROZEN_BATCH: Contestant(in_batches, lambda: result(in_batches, batched)),
    }
    expressions = program.expressions()
    if expressions is not None:
        _multiply_adds(1)  # compiles it
        found[Column.LIMIT] = Contestant(partial(_at_the_limit, expressions.operations), tuple)
    return found


def _at_the_limit(operations: int, calls: int) -> float:
    """Return the time of ``operations`` multiply-adds for each of ``calls`` states [s]."""
    rounds = -(-operations * calls // (12 * WIDTH))
    start = perf_counter()
    _multiply_adds(rounds)
    return (perf_counter() - start) * operations * calls / (12 * WIDTH * rounds)


@njit
def _multiply_adds(rounds):  # type: ignore[no-untyped-def]
    """Compute 12 independent multiply-adds in lanes in each round."""
    room = lane_scratch(14)
    for k in range(14):
        room[k] = 1.0 / (k + 2)
    a, b = room[12], room[13]
    x0, x1, x2, x3, x4, x5 = room[0], room[1], room[2], room[3], room[4], room[5]
    x6, x7, x8, x9, x10, x11 = room[6], room[7], room[8], room[9], room[10], room[11]
    for _ in range(rounds):
        x0, x1, x2, x3 = fma(x0, a, b), fma(x1, a, b), fma(x2, a, b), fma(x3, a, b)
        x4, x5, x6, x7 = fma(x4, a, b), fma(x5, a, b), fma(x6, a, b), fma(x7, a, b)
        x8, x9, x10, x11 = fma(x8, a, b), fma(x9, a, b), fma(x10, a, b), fma(x11, a, b)
    return get_lane(x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + x8 + x9 + x10 + x11, 0)


def freeze_all(mechanism: Mechanism) -> dict[Quantity, FrozenDynamics]:
    """Return the frozen dynamics for each quantity.

    They are those of the model with rotors for the quantity ``ROTORS``, and those of the model
    without rotors for all other quantities.
    """
    without, geared = freeze(mechanism.model), freeze(mechanism.geared)
    return {quantity: geared if quantity is Quantity.ROTORS else without for quantity in FROZEN}


def _model(mechanism: Mechanism, quantity: Quantity) -> Model:
    return mechanism.geared if quantity is Quantity.ROTORS else mechanism.model


def _shown(quantity: Quantity, value: Any) -> Results:
    """Return the results that other libraries have, too, which excludes Cᵀ v."""
    if quantity is Quantity.TERMS:
        return value[0].copy(), value[1].copy(), value[3].copy()
    return (np.array(value),)


@njit
def _loop_q(function, calls, q, outputs):  # type: ignore[no-untyped-def]
    for call in range(calls):
        function(q[call % q.shape[0]], *outputs)


@njit
def _loop_qv(function, calls, q, v, outputs):  # type: ignore[no-untyped-def]
    for call in range(calls):
        s = call % q.shape[0]
        function(q[s], v[s], *outputs)


@njit
def _loop_qvx(function, calls, q, v, x, outputs):  # type: ignore[no-untyped-def]
    for call in range(calls):
        s = call % q.shape[0]
        function(q[s], v[s], x[s], *outputs)


@njit
def _loop_qvxy(function, calls, q, v, x, y, outputs):  # type: ignore[no-untyped-def]
    for call in range(calls):
        s = call % q.shape[0]
        function(q[s], v[s], x[s], y[s], *outputs)


_LOOPS = {1: _loop_q, 2: _loop_qv, 3: _loop_qvx, 4: _loop_qvxy}
