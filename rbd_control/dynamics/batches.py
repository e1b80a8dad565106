"""Calls of kernels by public functions: single states directly, batches in lanes on all cores.

Kernels are called as ``kernel(model.packed, *inputs, *results)``. The states of a batch are joined
along the first axis: for ``count`` states q is (count nq,), v is (count nv,), M is (count nv, nv).
The arrays of a single state can therefore be passed unchanged, and the arrays of a batch after
``reshape``. A kernel returns False if there is no result, as where the mass matrix is singular; a
kernel that is called without checks in Python also if its inputs do not fit the model or are not
finite.

Most functions have two kernels with the same arguments and, to the last bit, the same results. The
first computes state after state, the second ``WIDTH`` states at a time in :mod:`lanes
<rbd_control.dynamics.lanes>`: entries of one vector register, one per state. The second is compiled
when the first large batch is computed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core.errors import NumbaError

from rbd_control.dynamics.arguments import (
    LEAST_SQUARE,
    MOST_SQUARE,
    check_out,
    external_wrenches,
    state,
)
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.sweep import position_offset
from rbd_control.errors import InputError

if TYPE_CHECKING:
    from rbd_control.dynamics.model import Model

STATES_PER_THREAD = 2048
"""Number of states per thread below which a further thread costs more time than it saves."""

STATES_FOR_LANES = 64
"""Number of states from which a batch is computed in lanes, after the first large batch."""

STATES_FOR_COMPILING = 2048
"""Number of states from which the kernel in lanes is compiled, which takes seconds.

ROS nodes compute fewer states at once, also when they plan a trajectory, so no node compiles it.
"""

_ARRAY, _empty = np.ndarray, np.empty

NOT_TAKEN = (TypeError, ValueError, NumbaError)
"""Exceptions that numba raises for arguments of types that a kernel does not accept."""


class Kernels:
    """The compiled kernels of one public function, and what is needed to call them.

    Args:
        states: kernel that computes one state after another.
        lanes: kernel that computes several states at a time; None if there is none.
        new_results: returns new arrays for the results of one state of a model, in a tuple.
        names: names of the vectors that the function takes after q, for errors.
        failure: returns the text of the error for a model and positions (count, nq) where there is
            no result for finite arguments.
        compiled_from: number of states from which the kernel in lanes is compiled.
        one_state: a further kernel for one state of float64 arrays, which the public function calls
            itself, and its numba signature. :meth:`settle` compiles it.

    Attributes:
        is_ready: whether ``states`` is compiled and refuses arrays of other types, so that a single
            state may be passed to it without checks in Python.
    """

    __slots__ = (
        "_compiled_from",
        "_one_state",
        "failure",
        "is_ready",
        "lanes",
        "lock",
        "names",
        "new_results",
        "states",
    )

    def __init__(
        self,
        states: Any,
        lanes: Any = None,
        new_results: Callable[[Model], tuple[np.ndarray, ...]] = lambda _model: (),
        names: Sequence[str] = (),
        *,
        failure: Callable[[Model, np.ndarray], str] = lambda _model, _q: "",
        compiled_from: int = STATES_FOR_COMPILING,
        one_state: tuple[Any, str] | None = None,
    ) -> None:
        self._one_state = one_state
        self.states, self.lanes, self.names, self.failure = states, lanes, names, failure
        self.new_results = new_results
        self._compiled_from = compiled_from
        self.is_ready = False
        self.lock = RLock()

    def of(self, count: int) -> Any:
        """Return the kernel for a batch of ``count`` states: ``lanes`` for a large one.

        A batch is large from ``compiled_from`` states on. After the first large batch the limit is
        :data:`STATES_FOR_LANES`.
        """
        if self.lanes is None or count < self._compiled_from:
            return self.states
        self._compiled_from = STATES_FOR_LANES
        return self.lanes

    def settle(self) -> None:
        """Stop further compilation of ``states``, and allow single states without checks.

        Call it after ``states`` has run with float64 arrays. From now on numba raises TypeError for
        arrays of other types. The kernel ``one_state`` is compiled. Nothing happens if numba's
        compilation is disabled.
        """
        if self.is_ready or not getattr(self.states, "signatures", None):
            return
        if self._one_state is not None:
            kernel, signature = self._one_state
            kernel.compile(signature)
            kernel.disable_compile()
        self.states.disable_compile()
        self.is_ready = True


def new_vector(model: Model) -> tuple[np.ndarray]:
    """Return a tuple of one new array (nv,), uninitialised, for the result of one state."""
    return (_empty(model.nv),)


def evaluate(kernels: Kernels, model: Model, out: Any, q: Any, *vectors: Any) -> Any:
    """Return the results of a function at the states of q and ``vectors``, in a tuple.

    A single state in arrays of the right type is passed directly to the kernel, which checks sizes
    and numbers. If the kernel refuses it, :func:`evaluate_checked` converts the arguments or raises
    an error with the reason.

    Args:
        kernels: the kernels of the function.
        model: the robot.
        out: arrays that take the results, in a tuple, which is returned; None makes new ones.
        q: joint positions, (..., nq).
        vectors: further arguments in the order of ``kernels.names``, (..., nv).

    Raises:
        InputError: for arguments of the wrong shape or not finite, or where there is no result.
    """
    if kernels.is_ready and type(q) is _ARRAY:
        try:
            if len(q) == model.nq:
                results = kernels.new_results(model) if out is None else out
                if kernels.states(model.packed, q, *vectors, *results):
                    return results
        except NOT_TAKEN:
            pass  # not float64, not contiguous, not writable, or not one state
    named = dict(zip(kernels.names, vectors, strict=True))
    return evaluate_checked(kernels, model, out, q, named)


def evaluate_checked(
    kernels: Kernels,
    model: Model,
    out: Any,
    q: Any,
    vectors: Mapping[str, Any],
    wrenches: Mapping[str, Any] | None = None,
) -> Any:
    """Check all arguments, then return the results as :func:`evaluate` does.

    Args:
        kernels: the kernels of the function. If wrenches are given, the kernels take the arrays
            bodies, points and values of :func:`external_wrenches` between the model and q.
        model: the robot.
        out: arrays that take the results, in a tuple, which is returned; None makes new ones.
        q: joint positions, (..., nq).
        vectors: further arguments by name, (..., nv).
        wrenches: external wrenches by name of the link, as in :func:`inverse_dynamics`.

    Raises:
        InputError: for arguments of the wrong shape or not finite, or where there is no result.
    """
    inputs, leading = state(model, q, **vectors)
    count = math.prod(leading)
    single = kernels.new_results(model)
    shapes = [x.shape for x in single]
    if out is None:
        # Named tuples are made without their __new__, which takes one argument per entry.
        out = tuple.__new__(type(single), [np.empty((*leading, *shape)) for shape in shapes])
    else:
        check_out(out, [(*leading, *shape) for shape in shapes])
    results = [x.reshape(count * n, *rest) for x, (n, *rest) in zip(out, shapes, strict=True)]
    rows: list[np.ndarray] = [x.reshape(-1) for x in inputs]
    shared: tuple[np.ndarray, ...] = (model.packed,)
    if wrenches:
        bodies, points, values = external_wrenches(model, wrenches, leading)
        shared = (model.packed, bodies, points)
        rows.insert(0, values.reshape(-1, 6))
    kernel = kernels.of(count)
    # Another thread must not end the compilation while this thread waits for it.
    with nullcontext() if kernels.is_ready else kernels.lock:
        if not over_states(kernel, shared, count, [*rows, *results]):
            raise InputError(kernels.failure(model, inputs[0]))
        if kernel is kernels.states and not wrenches:
            kernels.settle()
    return out


def over_states(
    kernel: Any, shared: tuple[Any, ...], count: int, batched: Sequence[np.ndarray]
) -> bool:
    """Call ``kernel(*shared, *batched)`` for ``count`` states; large batches use several threads.

    Compiled kernels release Python's global interpreter lock, so threads process parts of a batch
    of at least ``2 STATES_PER_THREAD`` states in parallel. States are independent, so the result
    does not depend on the division.

    Args:
        kernel: function that returns whether all its states have a result.
        shared: arguments that all states share, such as the model.
        count: number of states.
        batched: inputs and results, each with equally many rows for every state along its first
            axis; the kernel writes to the results.

    Returns:
        Whether every state has a result.
    """
    threads = 1
    if count >= 2 * STATES_PER_THREAD:
        threads = min(os.cpu_count() or 1, count // STATES_PER_THREAD)
    if threads < 2:
        return bool(kernel(*shared, *batched))
    edges = np.linspace(0, count, threads + 1).astype(int).tolist()
    rows = [array.shape[0] // count for array in batched]
    parts = [
        [array[start * k : stop * k] for array, k in zip(batched, rows, strict=True)]
        for start, stop in zip(edges[:-1], edges[1:], strict=True)
    ]
    with ThreadPoolExecutor(threads) as pool:
        return all(list(pool.map(lambda part: kernel(*shared, *part), parts)))


# --- For kernels ---------------------------------------------------------------------------------


@inlined
def count_states(model, q):
    """Return the number of states in ``q``, (count nq,); zero for a model that does not move."""
    return q.shape[0] // (model.nv + position_offset(model)) if model.nv > 0 else 0


@inlined
def part(array, b, length):
    """Return a view of the rows of state ``b`` of an array with ``length`` rows per state."""
    return array[b * length : (b + 1) * length]


@inlined
def rows_fit(model, q, x):
    """Return whether ``x`` has nv rows for each state in ``q``, (count nq,)."""
    return x.shape[0] * (model.nv + position_offset(model)) == q.shape[0] * model.nv


@inlined
def columns_fit(model, q, x):
    """Return whether ``x``, (count nv, nv), contains an (nv, nv) matrix for each state in ``q``."""
    return rows_fit(model, q, x) and x.shape[1] == model.nv


@inlined
def finite(x):
    """Return whether all numbers of a vector are finite."""
    result = True
    for i in range(x.shape[0]):
        result &= np.isfinite(x[i])
    return result


@inlined
def places(model, q):
    """Return whether all states in ``q`` are finite and each base quaternion can be normalised."""
    result = finite(q)
    if position_offset(model) > 0:
        for first in range(3, q.shape[0], model.nv + 1):
            square = 0.0
            for c in range(4):
                square += q[first + c] * q[first + c]
            result &= LEAST_SQUARE < square < MOST_SQUARE
    return result
