"""Validation of the arguments of public functions: shapes, leading axes and finite numbers.

Public functions accept arrays with any leading axes, such as ``q`` of shape ``(..., nq)``. Kernels
receive one flat batch of C-contiguous float64 states; the results get the leading axes back. The
leading axes of several arguments broadcast as in numpy, so one ``q`` may be combined with many
``v``. Code behind this module does not check arguments again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rbd_control.dynamics.checks import numbers_of
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.model import Model
from rbd_control.errors import InputError
from rbd_control.wording import listed, quoted


@compiled
def _first_not_finite(x):
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            if not np.isfinite(x[b, i]):
                return b * x.shape[1] + i
    return -1


def as_batch(name: str, value: Any, size: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return ``value`` as a finite (batch, size) array, and its leading axes.

    Raises:
        InputError: naming the argument, its shape and the size that the model requires.
    """
    array = numbers_of(name, value)
    if array.ndim == 0 or array.shape[-1] != size:
        what = "nq" if name == "q" else "nv"
        raise InputError(f"{name} has shape {array.shape} but the model has {what} = {size}")
    if not array.flags.behaved:
        # numba treats read-only and unaligned arrays as other types and would compile for them.
        array = array.copy()
    batch = array.reshape(-1, size)
    bad = _first_not_finite(batch)
    if bad >= 0:
        raise InputError(f"{name}[{bad % size}] is {batch.flat[bad]}; give finite numbers")
    return batch, array.shape[:-1]


def configuration(model: Model, q: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return joint positions as a (batch, nq) array, and their leading axes."""
    batch, shape = as_batch("q", q, model.nq)
    if model.floating_base and not np.linalg.norm(batch[:, 3:7], axis=1).all():
        raise InputError("q[3:7], the quaternion of the base, is zero; give [qx qy qz qw]")
    return batch, shape


def state(model: Model, q: Any, **vectors: Any) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Return ``q`` and vectors ((..., nv) each) as one batch, and the common leading axes."""
    first, shape = configuration(model, q)
    batches, shapes = [first], [shape]
    for name, value in vectors.items():
        batch, leading = as_batch(name, value, model.nv)
        batches.append(batch)
        shapes.append(leading)
    if all(other == shape for other in shapes):
        return batches, shape
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = ", ".join(f"{n}: {s}" for n, s in zip(["q", *vectors], shapes, strict=True))
        raise InputError(f"leading axes do not broadcast: {listed}") from error
    spread = [
        np.array(
            np.broadcast_to(batch.reshape(*leading, batch.shape[1]), (*common, batch.shape[1])),
            order="C",
        ).reshape(-1, batch.shape[1])
        for batch, leading in zip(batches, shapes, strict=True)
    ]
    return spread, common


def check_out(out: Sequence[np.ndarray], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise an :class:`~rbd_control.errors.InputError` if ``out`` cannot store ``shapes``."""
    if len(out) != len(shapes):
        raise InputError(f"out has {len(out)} arrays but there are {len(shapes)} results")
    for array, shape in zip(out, shapes, strict=True):
        if not isinstance(array, np.ndarray):
            raise InputError(f"out is a {type(array).__name__}; give an array of shape {shape}")
        if array.shape != shape:
            raise InputError(f"out has shape {array.shape} but the result has shape {shape}")
        if array.dtype != np.float64 or not array.flags.carray:
            raise InputError(
                f"out is an array of {array.dtype}, flags {array.flags.num}; give a writable, "
                f"C-contiguous array of float64"
            )


def link_attachment(model: Model, link: str) -> tuple[int, np.ndarray]:
    """Return the row of the body a link belongs to (-1: the world) and its placement in that body.

    Raises:
        InputError: for an unknown link, listing the links.
    """
    try:
        return model.link_body[link], model.link_placement[link]
    except KeyError:
        raise InputError(f"no link {quoted(link)}; links are {listed(model.link_names)}") from None


_NO_BODIES, _NO_POINTS = np.empty(0, dtype=np.int64), np.empty((0, 3))


def external_wrenches(
    model: Model, wrenches: Mapping[str, Any] | None, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return wrenches as kernel arrays: bodies (k,), points (k, 3), values (batch, k, 6).

    ``wrenches`` maps link names to ``[moment ; force]`` (..., 6) [N·m, N], world-aligned at the
    link's origin, as the environment applies them; leading axes broadcast to ``shape``. Wrenches
    on links that are fixed to the world have no effect and are left out.
    """
    count = math.prod(shape)
    if not wrenches:
        return _NO_BODIES, _NO_POINTS, np.empty((count, 0, 6))
    bodies, points, values = [], [], []
    for link, value in wrenches.items():
        body, placement = link_attachment(model, link)
        array = numbers_of(f"the wrench on {link!r}", value)
        if array.ndim == 0 or array.shape[-1] != 6:
            raise InputError(
                f"the wrench on {link!r} has shape {array.shape}; give [moment ; force], (..., 6)"
            )
        if not np.isfinite(array).all():
            raise InputError(f"the wrench on {link!r} is not finite: {array}")
        try:
            spread = np.broadcast_to(array, (*shape, 6))
        except ValueError:
            raise InputError(
                f"the wrench on {link!r} has shape {array.shape}, which does not broadcast to "
                f"{(*shape, 6)}"
            ) from None
        if body >= 0:
            bodies.append(body)
            points.append(placement[:3, 3])
            values.append(spread.reshape(count, 6))
    return (
        np.array(bodies, dtype=np.int64),
        np.array(points, dtype=np.float64).reshape(-1, 3),
        np.ascontiguousarray(np.array(values).reshape(len(bodies), count, 6).swapaxes(0, 1)),
    )
