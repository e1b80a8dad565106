"""phi, H, M and R as operators that can be composed, applied in O(N) and inspected as matrices.

Expressions are written as in the source and are evaluated by sweeps::

    s = spatial_operators(model, q)
    mass_matrix = s.H @ s.phi @ s.M @ s.phi.T @ s.H.T
    p = mass_matrix(v)          # a scatter, a product per body, a gather
    mass_matrix.dense()         # the matrix, (nv, nv)

The operators serve teaching and tests; for control loops use the compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbd_control.dynamics.arguments import configuration, link_attachment
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.inertia import spatial_inertia
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC
from rbd_control.dynamics.papers.refusals import refuse_mimics
from rbd_control.dynamics.papers.soa.composite import gather, gather_inertias, scatter, times
from rbd_control.dynamics.sweep import new_sweep, place_bodies
from rbd_control.errors import InputError

Array = NDArray[np.float64]

FRAMES = ("body", "inertial")


@dataclass(frozen=True, eq=False)
class Operator:
    """A linear map of stacked vectors; only :meth:`dense` forms its matrix.

    ``A(x)`` applies the map to x ``(..., *columns)``, ``A.T`` is its adjoint, ``A @ B`` applies B
    first, then A, and ``A + B`` is the sum. ``forward`` computes the map, ``backward`` the adjoint.
    """

    rows: tuple[int, ...]
    """Shape of the result: (n, 6) for a force or motion of each body, (nv,) for joints."""
    columns: tuple[int, ...]
    """Shape of the argument."""
    forward: Callable[[Array], Array]
    backward: Callable[[Array], Array]

    def __call__(self, x: ArrayLike) -> Array:
        """Return the operator applied to ``x``, (..., *columns): an array (..., *rows).

        Raises:
            InputError: if the last axes of ``x`` are not ``columns``.
        """
        x = np.asarray(x, dtype=float)
        if x.shape[max(x.ndim - len(self.columns), 0) :] != self.columns:
            takes = ", ".join(map(str, ("...", *self.columns)))
            raise InputError(f"x has shape {x.shape}; the operator takes ({takes})")
        return self.forward(x)

    @property
    def T(self) -> Operator:
        """Adjoint of the operator, whose matrix is the transpose."""
        return Operator(self.columns, self.rows, self.backward, self.forward)

    def __matmul__(self, other: Operator) -> Operator:
        if self.columns != other.rows:
            raise InputError(f"operator on {self.columns} cannot follow one to {other.rows}")
        return Operator(
            self.rows,
            other.columns,
            lambda x: self.forward(other.forward(x)),
            lambda y: other.backward(self.backward(y)),
        )

    def __add__(self, other: Operator) -> Operator:
        if (self.rows, self.columns) != (other.rows, other.columns):
            raise InputError(
                f"operators from {self.columns} to {self.rows} and from {other.columns} to "
                f"{other.rows} have no sum"
            )
        return Operator(
            self.rows,
            self.columns,
            lambda x: self.forward(x) + other.forward(x),
            lambda y: self.backward(y) + other.backward(y),
        )

    def dense(self) -> Array:
        """Return the operator as a matrix, for inspection only.

        Returns:
            (..., rows, columns), where the axes of ``rows`` and of ``columns`` are flattened to one
            axis each.
        """
        size = int(np.prod(self.columns, dtype=int))
        images = [self.forward(unit.reshape(self.columns)) for unit in np.eye(size)]
        flat = [y.reshape(*y.shape[: y.ndim - len(self.rows)], -1) for y in images]
        return np.stack(flat, axis=-1)


def _block_diagonal(blocks: Array) -> Operator:
    """Return the operator with symmetric blocks (..., n, 6, 6) on its diagonal."""

    def apply(x: Array) -> Array:
        return times(blocks, x)

    shape = (blocks.shape[-3], 6)
    return Operator(shape, shape, apply, apply)


@dataclass(frozen=True, eq=False)
class SpatialOperators:
    """The operators of one configuration, or of many; letters as in J24.

    Rows are those of ``model.arrays``: bodies, then rotors. Forces and motions of all rows are
    stacked as (..., n, 6).
    """

    E_phi: Operator
    """Moves each force to the parent: (E_phi x)(k) = sum of phi(k, child) x(child)."""
    phi: Operator
    """(1 - E_phi)⁻¹; block (i, j) carries a force from body j to body i, of whose subtree j must be
    a part; all other blocks are zero."""
    phi_tilde: Operator
    """phi - 1 = E_phi phi."""
    H: Operator
    """Projects forces on the joints, T = H f; Hᵀ v are the motions of joint velocities."""
    M: Operator
    """Spatial inertias, block diagonal."""
    R: Operator
    """Composite inertias, of each body and its subtree as one rigid body, block diagonal."""
    E: Operator
    """Sum of the forces on the base bodies, in world axes about the origin, (6,)."""
    parent: NDArray[np.int64]
    """(n,) parent of each row; -1 for the world."""
    hops: Array
    """phi(parent(i), i), (..., n, 6, 6); for a base body the parent is the world."""
    joint_maps: Array
    """H(i)ᵀ, (..., n, 6)."""
    inertias: Array
    """M(i), (..., n, 6, 6)."""
    composites: Array
    """R(i), (..., n, 6, 6)."""
    carriers: NDArray[np.int64]
    """(n,) row whose body H(i)ᵀ is fixed in: i, and row 5 for the six rows of a floating root."""

    def coriolis_acceleration(self, v: ArrayLike) -> Array:
        """Return the accelerations a(k) = V(k) x H(k)ᵀ v(k), (..., n, 6), for v (..., nv).

        V(k) is the twist of body k at the joint velocities v [rad/s or m/s].
        """
        along_joint = self.H.T(v)
        V = self.phi.T(along_joint)[..., self.carriers, :]
        angular = np.cross(V[..., :3], along_joint[..., :3])
        linear = np.cross(V[..., :3], along_joint[..., 3:])
        return np.concatenate(
            [angular, linear + np.cross(V[..., 3:], along_joint[..., :3])], axis=-1
        )

    def gyroscopic_force(self, v: ArrayLike) -> Array:
        """Return the forces b(k) = V(k) x* M(k) V(k), (..., n, 6), for v (..., nv).

        V(k) is the twist of body k at the joint velocities v [rad/s or m/s].
        """
        V = self.phi.T(self.H.T(v))
        h = self.M(V)
        angular = np.cross(V[..., :3], h[..., :3]) + np.cross(V[..., 3:], h[..., 3:])
        return np.concatenate([angular, np.cross(V[..., :3], h[..., 3:])], axis=-1)


def spatial_operators(model: Model, q: np.ndarray, frame: str = "body") -> SpatialOperators:
    """Return the spatial operators E_phi, phi, phi~, H, M, R and E of configurations.

    :class:`SpatialOperators` states their meanings and shapes.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        frame: ``"body"``: quantities of a body are in its own frame, and H and M are constant.
            ``"inertial"``: all quantities are in world axes about one origin, and E_phi and phi
            consist of identities and zeros. The origin is that of the world or of a floating root.

    Raises:
        InputError: for an unknown frame, a ``q`` of the wrong shape or not finite, and a model with
            mimic joints.

    Source: J24; :mod:`~rbd_control.dynamics.papers.soa` lists its notation.
    """
    refuse_mimics(model, "spatial_operators")
    _check_frame(frame)
    rotation, position = _placements(model, q)
    shape, parent = position.shape[:-2], model.arrays.parent
    joint_maps = np.broadcast_to(_joint_maps(model), (*shape, parent.size, 6))
    inertias = np.broadcast_to(_inertias(model), (*shape, parent.size, 6, 6))
    if frame == "body":
        # The last row stands for the world, because the index of a base body's parent is -1.
        world = np.broadcast_to(np.eye(3), (*shape, 1, 3, 3))
        R_parent = np.concatenate([rotation, world], axis=-3)[..., parent, :, :].swapaxes(-1, -2)
        p_parent = np.concatenate([position, np.zeros((*shape, 1, 3))], axis=-2)[..., parent, :]
        hops = _force_transform(R_parent @ rotation, times(R_parent, position - p_parent))
    else:
        to_world = _force_transform(rotation, position)
        # Motions transform by the inverse transpose, whose zero block is the other one.
        motion = to_world[..., [3, 4, 5, 0, 1, 2], :][..., [3, 4, 5, 0, 1, 2]]
        joint_maps = times(motion, joint_maps)
        inertias = to_world @ inertias @ to_world.swapaxes(-1, -2)
        hops = np.broadcast_to(np.eye(6), (*shape, parent.size, 6, 6))
    return _operators(model, hops, joint_maps, inertias)


def link_operator(model: Model, q: np.ndarray, link: str, frame: str = "body") -> Operator:
    """Return the operator B from a wrench on a link to the stacked forces on all rows, (n, 6).

    The wrench ``[moment ; force]`` (6,) is world-aligned at the link's origin; only the body of the
    link gets a force. With the operators of the same ``frame`` the Jacobian of the link is
    ``J = Bᵀ phiᵀ Hᵀ``.

    Args:
        model: the robot.
        q: joint positions, (..., nq) [rad or m].
        link: name of the link.
        frame: frame of the forces on the rows, ``"body"`` or ``"inertial"``, as in
            :func:`spatial_operators`.

    Raises:
        InputError: for a link that is unknown or fixed to the world, an unknown frame, a ``q`` of
            the wrong shape or not finite, and a model with mimic joints.

    Source: J24, "Including external forces on bodies".
    """
    refuse_mimics(model, "link_operator")
    _check_frame(frame)
    body, placement = link_attachment(model, link)
    if body < 0:
        raise InputError(f"link {link!r} is fixed to the world: no body takes up its force")
    rotation, position = _placements(model, q)
    rotation, position = rotation[..., body, :, :], position[..., body, :]
    n = model.arrays.parent.size
    offset = np.broadcast_to(placement[:3, 3], position.shape)
    if frame == "body":
        block = _force_transform(rotation.swapaxes(-1, -2), offset)
    else:
        axes = np.broadcast_to(np.eye(3), rotation.shape)
        block = _force_transform(axes, position + times(rotation, offset))

    def forward(x: Array) -> Array:
        at_body = times(block, x)
        y = np.zeros((*at_body.shape[:-1], n, 6))
        y[..., body, :] = at_body
        return y

    def backward(y: Array) -> Array:
        return times(block.swapaxes(-1, -2), y[..., body, :])

    return Operator((n, 6), (6,), forward, backward)


def _check_frame(frame: str) -> None:
    if frame not in FRAMES:
        raise InputError(f"no frame {frame!r}; choices are {', '.join(FRAMES)}")


def _force_transform(rotation: Array, position: Array) -> Array:
    """Return phi of a frame at (rotation, position): forces to the origin, (..., 6, 6)."""
    result = np.zeros((*rotation.shape[:-2], 6, 6))
    result[..., :3, :3] = result[..., 3:, 3:] = rotation
    # The columns of S(p) R are p x (columns of R).
    result[..., :3, 3:] = np.cross(position[..., None, :], rotation.swapaxes(-1, -2)).swapaxes(
        -1, -2
    )
    return result


@compiled
def _place(packed, q, rotation, position):
    model = unpacked(packed)
    s = new_sweep(model.parent.shape[0])
    for b in range(q.shape[0]):
        place_bodies(model, q[b], s)
        rotation[b] = s.R
        position[b] = s.p


def _placements(model: Model, q: np.ndarray) -> tuple[Array, Array]:
    """Return orientation (..., n, 3, 3) and position (..., n, 3) [m] of every row.

    Both are in world axes; positions are about the origin of the world or of a floating root.
    """
    batch, shape = configuration(model, q)
    n = model.arrays.parent.size
    rotation, position = np.empty((len(batch), n, 3, 3)), np.empty((len(batch), n, 3))
    _place(model.packed, batch, rotation, position)
    return rotation.reshape(*shape, n, 3, 3), position.reshape(*shape, n, 3)


def _joint_maps(model: Model) -> Array:
    """Return H(i)ᵀ in body axes, (n, 6), constant because the axis is fixed in the body."""
    arrays = model.arrays
    linear = arrays.joint_type == PRISMATIC
    linear |= (arrays.joint_type == FLOATING) & (np.arange(linear.size) >= 3)
    result = np.zeros((linear.size, 6))
    result[~linear, :3], result[linear, 3:] = arrays.axis[~linear], arrays.axis[linear]
    return result * arrays.ratio[:, None]


def _inertias(model: Model) -> Array:
    """Return M(i) about the body's origin, body axes, (n, 6, 6)."""
    arrays = model.arrays
    pseudo = np.zeros((arrays.mass.size, 4, 4))
    pseudo[:, :3, :3] = arrays.second_moment
    pseudo[:, :3, 3] = pseudo[:, 3, :3] = arrays.first_moment
    pseudo[:, 3, 3] = arrays.mass
    return np.array([spatial_inertia(p) for p in pseudo])


def _carriers(model: Model) -> NDArray[np.int64]:
    """Return for each row the row that carries the inertia of its body, (n,).

    It is the row itself, but for the six rows of a floating base, which have one body: row 5.
    """
    carriers = np.arange(model.arrays.parent.size)
    if model.floating_base:
        carriers[:6] = 5
    return carriers


def _operators(model: Model, hops: Array, joint_maps: Array, inertias: Array) -> SpatialOperators:
    parent, dof, nv = model.arrays.parent, model.arrays.dof, model.nv
    n = parent.size
    stack = (n, 6)
    composites = gather_inertias(parent, hops, inertias)

    def pass_on(x: Array) -> Array:
        y = np.zeros(np.broadcast_shapes(x.shape, hops.shape[:-1]))
        for i in np.flatnonzero(parent >= 0):
            y[..., parent[i], :] += times(hops[..., i, :, :], x[..., i, :])
        return y

    def take_over(x: Array) -> Array:
        y = np.zeros(np.broadcast_shapes(x.shape, hops.shape[:-1]))
        for i in np.flatnonzero(parent >= 0):
            y[..., i, :] = times(hops[..., i, :, :].swapaxes(-1, -2), x[..., parent[i], :])
        return y

    def onto_joints(x: Array) -> Array:
        along = np.sum(joint_maps * x, axis=-1)
        tau = along[..., :nv].copy()
        for r in range(nv, n):
            tau[..., dof[r]] += along[..., r]
        return np.asarray(tau)

    def off_joints(v: Array) -> Array:
        return joint_maps * v[..., dof, None]

    # A reflected rotor turns in a frame at rest, so the base does not carry it.
    base = np.flatnonzero((parent < 0) & (parent == parent[dof]))

    def pick(x: Array) -> Array:
        return np.asarray(times(hops[..., base, :, :], x[..., base, :]).sum(axis=-2))

    def spread(x: Array) -> Array:
        y = np.zeros((*np.broadcast_shapes(x.shape[:-1], hops.shape[:-3]), n, 6))
        y[..., base, :] = times(hops[..., base, :, :].swapaxes(-1, -2), x[..., None, :])
        return y

    E_phi = Operator(stack, stack, pass_on, take_over)
    phi = Operator(
        stack, stack, lambda x: gather(parent, hops, x), lambda x: scatter(parent, hops, x)
    )
    return SpatialOperators(
        E_phi=E_phi,
        phi=phi,
        phi_tilde=E_phi @ phi,
        H=Operator((nv,), stack, onto_joints, off_joints),
        M=_block_diagonal(inertias),
        R=_block_diagonal(composites),
        E=Operator((6,), stack, pick, spread),
        parent=parent,
        hops=hops,
        joint_maps=joint_maps,
        inertias=inertias,
        composites=composites,
        carriers=_carriers(model),
    )
