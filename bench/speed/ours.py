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
from bench.speed.quantities import Contestant, Quantity, Results
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
) -> tuple[Contestant, Contestant]:
    """Return a frozen function as two contestants: called from Python, and in a compiled loop.

    Args:
        mechanism: the mechanism.
        quantity: a key of :data:`FROZEN`.
        functions: functions compiled for the model of the mechanism, from :func:`freeze_all`.
    """
    function = getattr(functions, FROZEN[quantity])
    inputs = mechanism.states.inputs(quantity)
    n = mechanism.model.nv
    shapes: tuple[tuple[int, ...], ...] = ((n,),)
    if quantity is Quantity.MASS:
        shapes = ((n, n),)
    elif quantity in (Quantity.CORIOLIS, Quantity.TERMS):
        shapes = ((n, n), (n, n), (n,), (n,))
    elif quantity is Quantity.CHRISTOFFEL:
        shapes = ((n, n, n),)
    outputs = tuple(np.full(shape, np.nan) for shape in shapes)
    loop = _LOOPS[len(inputs)]

    def looped(calls: int) -> float:
        start = perf_counter()
        loop(function, calls, *inputs, outputs)
        return perf_counter() - start

    def result(run: Run) -> Results:
        for output in outputs:
            output.fill(np.nan)
        run(1)
        if quantity is Quantity.CORIOLIS:
            return _shown(quantity, outputs[1])
        return _shown(quantity, outputs if len(outputs) > 1 else outputs[0])

    called = from_python(function, (), inputs, outputs)
    return Contestant(called, lambda: result(called)), Contestant(looped, lambda: result(looped))


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
