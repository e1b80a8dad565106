"""The model as one array for compiled kernels, because each array argument of a call takes 60 ns.

:func:`constants_of` computes the constants of the sweeps from ``ModelArrays``; :func:`packed`
writes them into one array of floats, and :func:`unpacked` reads them inside a kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.memory import integers, numbers
from rbd_control.dynamics.model_arrays import REVOLUTE, ModelArrays


class Constants(NamedTuple):
    """Constants of the sweeps; the rows are the rows of ``ModelArrays``: bodies, then rotors.

    Fields that ``ModelArrays`` has as well have the same meaning and unit there, except ``axis``.
    The orientation in the parent's frame of a body that its joint turns by q about the axis a is::

        along + cos(q) cosine + sin(q) sine = rotation * Rodrigues' rotation about a by q

    with along = rotation a aᵀ, cosine = rotation - along, sine = rotation S(a). For joints of other
    types ``along`` is the whole rotation.
    """

    nv: int
    bodies: int  # rows that are bodies; those behind them are rotors
    parent: np.ndarray  # (n,)
    dof: np.ndarray  # (n,)
    rotor: np.ndarray  # (n,)
    joint_type: np.ndarray  # (n,)
    gravity: np.ndarray  # (3,)
    ratio: np.ndarray  # (n,)
    mass: np.ndarray  # (n,)
    translation: np.ndarray  # (n, 3)
    axis: np.ndarray  # (n, 3) in the parent's frame
    first_moment: np.ndarray  # (n, 3)
    along: np.ndarray  # (n, 3, 3)
    cosine: np.ndarray  # (n, 3, 3)
    sine: np.ndarray  # (n, 3, 3)
    second_moment: np.ndarray  # (n, 3, 3)


def constants_of(arrays: ModelArrays) -> Constants:
    """Return the constants of the sweeps: floats, or expressions if ``arrays`` has expressions."""
    turns = (arrays.joint_type == REVOLUTE)[:, None, None]
    axis = np.matmul(arrays.rotation, arrays.axis[:, :, None])
    about = np.matmul(axis, arrays.axis[:, None, :])
    # The rows of R S(a) are (rows of R) x a.
    sine = np.cross(arrays.rotation, arrays.axis[:, None, :])
    return Constants(
        nv=int(arrays.dof.max(initial=-1)) + 1,
        bodies=arrays.parent.size - int(np.count_nonzero(arrays.rotor >= 0)),
        parent=arrays.parent,
        dof=arrays.dof,
        rotor=arrays.rotor,
        joint_type=arrays.joint_type,
        gravity=arrays.gravity,
        ratio=arrays.ratio,
        mass=arrays.mass,
        translation=arrays.translation,
        axis=axis[:, :, 0].copy(),
        first_moment=arrays.first_moment,
        along=np.where(turns, about, arrays.rotation),
        cosine=np.where(turns, arrays.rotation - about, 0 * about),
        sine=np.where(turns, sine, 0 * sine),
        second_moment=arrays.second_moment,
    )


def packed(constants: Constants) -> np.ndarray:
    """Return all constants in one float64 array: the number of rows, then all fields in order.

    Integers are stored as their eight bytes. :func:`unpacked` reads the array in a kernel.
    """
    n = constants.parent.size
    head = np.array([n, constants.nv, constants.bodies], dtype=np.int64)
    fields = [head, *constants[2:]]
    as_floats = [x.view(np.float64) if x.dtype == np.int64 else x for x in fields]
    return np.concatenate([np.ascontiguousarray(x).ravel() for x in as_floats])


def views(array: np.ndarray, constants: Constants) -> Constants:
    """Return views of the fields of an array of :func:`packed`; writing to them changes the array.

    Args:
        array: result of :func:`packed`.
        constants: constants of the same shapes and types; only its nv and bodies are copied.
    """
    fields, first = [], 3
    for x in constants[2:]:
        fields.append(array[first : first + x.size].view(x.dtype).reshape(x.shape))
        first += x.size
    return Constants(constants.nv, constants.bodies, *fields)


@inlined
def unpacked(model):
    """Return the :class:`Constants` in an array of :func:`packed`, as views, in kernels only."""
    head = integers(model, 0, (3,))
    n = head[0]
    after = 6 + 4 * n
    return Constants(
        head[1],
        head[2],
        integers(model, 3, (n,)),
        integers(model, 3 + n, (n,)),
        integers(model, 3 + 2 * n, (n,)),
        integers(model, 3 + 3 * n, (n,)),
        numbers(model, 3 + 4 * n, (3,)),
        numbers(model, after, (n,)),
        numbers(model, after + n, (n,)),
        numbers(model, after + 2 * n, (n, 3)),
        numbers(model, after + 5 * n, (n, 3)),
        numbers(model, after + 8 * n, (n, 3)),
        numbers(model, after + 11 * n, (n, 3, 3)),
        numbers(model, after + 20 * n, (n, 3, 3)),
        numbers(model, after + 29 * n, (n, 3, 3)),
        numbers(model, after + 38 * n, (n, 3, 3)),
    )
