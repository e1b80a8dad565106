"""Validation of the arguments of public functions: shapes, leading axes and finite numbers.

Public functions accept arrays with any leading axes, such as ``q`` of shape ``(..., nq)``. Kernels
receive one flat batch of C-contiguous float64 states; the results get the leading axes back. The
leading axes of several arguments broadcast as in numpy, so one ``q`` may be combined with many
``v``. Code that receives arguments from this module need not check them.
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
    """Return ``value`` as a finite float64 array (batch, size), and the shape of its leading axes.

    The array is a view of ``value`` unless a conversion or a copy is necessary.

    Args:
        name: name of the argument in errors; ``"q"`` is compared with nq, every other name with nv.
        value: numbers, (..., size).
        size: length that the model requires of the last axis.

    Raises:
        InputError: if ``value`` is not numeric, has another last axis, or is not finite; the
            message names the argument, and its shape and the required size or the invalid entry.
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


LEAST_SQUARE, MOST_SQUARE = 1e-300, 1e300
"""Bounds of the squared norm of a base quaternion, within which it can be normalised."""


def configuration(model: Model, q: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return joint positions as an array (batch, nq), and the shape of their leading axes.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].

    Raises:
        InputError: if ``q`` has the wrong shape or is not finite, or the squared norm of the
            quaternion of a floating base is not between :data:`LEAST_SQUARE` and
            :data:`MOST_SQUARE`; it need not be one.
    """
    batch, shape = as_batch("q", q, model.nq)
    if model.floating_base:
        with np.errstate(over="ignore", under="ignore"):
            square = (batch[:, 3:7] ** 2).sum(axis=1)
        if not ((square > LEAST_SQUARE) & (square < MOST_SQUARE)).all():
            raise InputError(
                "q[3:7], the quaternion of the base, is zero or out of range; give [qx qy qz qw]"
            )
    return batch, shape


def state(model: Model, q: Any, **vectors: Any) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Return ``q`` and vectors as arrays of one batch, and the shape of their leading axes.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        vectors: velocities, torques and so on by the name that errors use, (..., nv) each.

    Returns:
        ``[q, *vectors]`` in the order of the call, (batch, nq) and (batch, nv), and the shape to
        which all leading axes broadcast.

    Raises:
        InputError: for arguments of the wrong shape or not finite, or leading axes that do not
            broadcast.
    """
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
    """Check that the caller's arrays ``out`` can store results of these shapes.

    Args:
        out: one array for each result.
        shapes: shape of each result.

    Raises:
        InputError: if the number of arrays or a shape differs, or if an array is not a writable,
            aligned, C-contiguous numpy array of float64.
    """
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
    """Return the body that a link is rigidly part of, and the placement of the link in it.

    Returns:
        Row of the body in ``model.arrays``, -1 for the world; and the frame of the link in the
        frame of this body or of the world, (4, 4).

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
    """Return the wrenches of the environment on links as arrays for kernels.

    Wrenches on links that are fixed to the world have no effect; they are checked and left out.

    Args:
        model: the robot.
        wrenches: ``{link: [moment ; force]}``, (..., 6) each [N·m, N], world-aligned at the link's
            origin, as the environment applies them; None for no wrenches.
        shape: leading axes of the state, to which those of the wrenches broadcast.

    Returns:
        For the k links that move: rows of their bodies (k,), origins of the links in the frames of
        the bodies (k, 3) [m], and wrenches (batch, k, 6).

    Raises:
        InputError: for an unknown link, or a wrench that has the wrong shape, does not broadcast to
            ``shape`` or is not finite.
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
