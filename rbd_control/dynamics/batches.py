"""From public functions to kernels: one state by the shortest way, many on all cores if it pays.

Kernels are called as ``kernel(model.packed, *inputs, *results)`` and run the states of a batch
together along the first axis: of ``count`` states q is (count nq,), v is (count nv,), M is
(count nv, nv). So one state's arrays are what a kernel takes as they are, and a batch's after
``reshape``. A kernel returns whether it could make something of its inputs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from rbd_control.dynamics.arguments import external_wrenches, state
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.sweep import position_offset
from rbd_control.errors import InputError

if TYPE_CHECKING:
    from rbd_control.dynamics.model import Model

STATES_PER_THREAD = 2048
"""Below this a thread costs more than it saves."""

_FLOAT = np.dtype(np.float64)


def evaluate(
    kernel: Any,
    model: Model,
    shapes: Sequence[tuple[int, ...]],
    q: Any,
    *,
    wrenches: Mapping[str, Any] | None = None,
    failure: str = "",
    **vectors: Any,
) -> list[np.ndarray]:
    """Return the results of ``kernel``, of ``shapes`` behind the leading axes of q and ``vectors``.

    With ``wrenches`` the kernel gets their bodies, points and values between the model and q.

    Raises:
        InputError: for arguments of the wrong shape or not finite; with the text ``failure`` if
            the kernel can make nothing of finite ones.
    """
    if not wrenches and _is_state(model, q, vectors):
        results = [np.empty(shape) for shape in shapes]
        if kernel(model.packed, q, *vectors.values(), *results):
            return results
    inputs, leading = state(model, q, **vectors)
    count = math.prod(leading)
    results = [np.empty((count * shape[0], *shape[1:])) for shape in shapes]
    rows: list[np.ndarray] = [x.reshape(-1) for x in inputs]
    shared: tuple[np.ndarray, ...] = (model.packed,)
    if wrenches:
        bodies, points, values = external_wrenches(model, wrenches, leading)
        shared = (model.packed, bodies, points)
        rows.insert(0, values.reshape(-1, 6))
    if not over_states(kernel, shared, count, [*rows, *results]):
        raise InputError(failure)
    return [x.reshape(*leading, *shape) for x, shape in zip(results, shapes, strict=True)]


def _is_state(model: Model, q: Any, vectors: Mapping[str, Any]) -> bool:
    """Return whether this is one state, in arrays that kernels take as they are."""
    shape: tuple[int, ...] = (model.nq,)
    for x in (q, *vectors.values()):
        if (
            type(x) is not np.ndarray
            or x.shape != shape
            or x.dtype is not _FLOAT
            or not x.flags.carray
        ):
            return False
        shape = (model.nv,)
    return True


def over_states(
    kernel: Any, shared: tuple[Any, ...], count: int, batched: Sequence[np.ndarray]
) -> bool:
    """Call ``kernel(*shared, *batched)`` for ``count`` states, in several threads if they are many.

    Compiled kernels let go of Python's lock, so threads work on parts of a large batch side by
    side. The result does not depend on how it is split: states know nothing of each other.
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
    """Return the number of states in ``q``; zero for a model that does not move."""
    return q.shape[0] // (model.nv + position_offset(model)) if model.nv > 0 else 0


@inlined
def part(array, b, length):
    """Return rows of state ``b``, if each has so many."""
    return array[b * length : (b + 1) * length]


@inlined
def finite(x):
    """Return whether all numbers of a vector are finite."""
    result = True
    for i in range(x.shape[0]):
        result &= np.isfinite(x[i])
    return result


@inlined
def places(model, q):
    """Return whether ``q`` places the bodies: finite numbers, and no quaternion of length zero."""
    result = finite(q)
    if position_offset(model) > 0:
        for first in range(3, q.shape[0], model.nv + 1):
            result &= (
                abs(q[first]) + abs(q[first + 1]) + abs(q[first + 2]) + abs(q[first + 3]) > 0.0
            )
    return result
