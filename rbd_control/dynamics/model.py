"""The frozen model of a robot, for compiled kernels and for users.

Conventions of the package: motion vectors are [omega; u] and force vectors [moment; force], angular
part first. The frame of a moving body is the frame of the link that its joint moves, which at joint
position zero is the joint frame. The world frame is the frame of the root link, unless the base
floats; then ``q`` contains the pose of the root in the world.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbd_control.dynamics.bodies import Body
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.constants import constants_of, packed
from rbd_control.dynamics.inertia import pseudo_inertia, violation
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC, REVOLUTE, Array, ModelArrays
from rbd_control.dynamics.rotors import Rotor, with_rotor
from rbd_control.dynamics.tree import merged_tree
from rbd_control.dynamics.urdf import naming, parse_urdf
from rbd_control.errors import InputError, ModelError, ModelWarning
from rbd_control.wording import listed, quoted

MOST_NAMED = 20
"""Maximum number of links that a warning names."""

MOST_SAID = 4
"""Maximum number of remarks in a warning."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A robot with ``nv`` degrees of freedom, made by :meth:`from_urdf` and never changed.

    With a fixed base q and v list the joints in the order of ``joint_names``, and nq = nv.

    With a floating base q = [x y z, qx qy qz qw, joints] and v = [omega; u; joint velocities]:
    omega is the angular velocity of the root body and u the velocity of its origin, in its own
    axes. Then nv = 6 + len(joint_names) and nq = nv + 1.

    In both cases joint i of ``joint_names`` is row nv - len(joint_names) + i of v.

    A joint that mimics another is not a degree of freedom: its position is a multiple of the
    leader's position plus an offset, and its inertia and weight act on the leader. Its limits of
    position and velocity restrict those of the leader.
    """

    name: str
    joint_names: tuple[str, ...]
    """The independent joints, depth first in the order of the description."""
    joint_links: tuple[str, ...]
    """The link that each joint of ``joint_names`` moves."""
    link_names: tuple[str, ...]
    """All links in the order of the description, those fixed to others included."""
    root_link: str
    """The link without parent joint; it may stand anywhere in the description."""
    nq: int
    nv: int
    lower_limit: Array
    """(nv,) lowest position [rad or m]; -inf for a joint without limit."""
    upper_limit: Array
    """(nv,) highest position [rad or m]; inf for a joint without limit."""
    velocity_limit: Array
    """(nv,) greatest speed [rad/s or m/s]; inf where the description has none, or zero."""
    effort_limit: Array
    """(nv,) greatest torque or force [N·m or N]; inf where the description has none, or zero."""
    gravity: Array
    """(3,) acceleration of gravity, world axes [m/s²]."""
    arrays: ModelArrays
    """The moving bodies; do not change these arrays."""
    link_body: dict[str, int]
    """Row of the moving body that each link is rigidly part of, -1 for the world."""
    link_placement: dict[str, Array]
    """(4, 4) placement of each link in the frame of its moving body, or of the world."""
    body_links: tuple[str, ...]
    """The link that each moving joint moves, mimic joints included, in the order of ``arrays``; the
    root of a floating base is excluded."""
    joint_row: dict[str, int]
    """Row in ``arrays`` of the body that each moving joint moves, mimic joints included."""
    fixed_joints: tuple[str, ...] = ()
    """The joints of the description that do not move: fixed and locked joints."""
    remarks: tuple[str, ...] = ()
    """Errors of the description that do not prevent its use."""

    @classmethod
    def from_urdf(
        cls,
        source: str | os.PathLike[str],
        *,
        locked: Mapping[str, float] = MappingProxyType({}),
        floating_base: bool = False,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        rotors: Mapping[str, Rotor] | None = None,
        strict: bool = False,
    ) -> Model:
        """Build the model of a robot from its description.

        Links behind fixed and locked joints are merged into the bodies that carry them. Mimic
        joints move with their leaders. Errors that do not prevent the use of the description are
        stored in :attr:`remarks` and reported in one warning: inertias that no rigid body can have
        (zero or negative about an axis, or against the triangle inequality), joints that carry no
        mass, mimic joints without leader, and limits of mimic joints that contradict those of their
        leader.

        Args:
            source: URDF text or path; the path of a ``.xacro`` file, with the arguments
                ``NAME:=VALUE`` after it, where xacrodoc is installed.
            locked: positions at which joints are fixed, by name [rad or m].
            floating_base: whether the root link moves freely.
            gravity: acceleration of gravity, (3,) in world axes [m/s²].
            rotors: geared rotors of the motors by joint, see :mod:`~rbd_control.dynamics.rotors`.
            strict: raise a ModelError instead of the warning, which is a ModelWarning.

        Raises:
            ModelError: for an invalid description; the message names the link or joint.
            InputError: for an invalid ``locked``, ``gravity`` or ``rotors``; the message says why.
        """
        with naming(source):
            robot = parse_urdf(source)
            tree = merged_tree(robot, locked, floating_base=floating_base)
            remarks = ([_in_doubt(tree.doubts)] if tree.doubts else []) + tree.remarks
            if remarks and strict:
                raise ModelError(remarks[0])
        if remarks:
            warnings.warn(f"{robot.name}: {_together(remarks)}", ModelWarning, stacklevel=2)
        rows, root_rows = tree.bodies, 6 if floating_base else 0
        # Select by `leads`, not by ratio 1: a mimic joint may have the multiplier 1.
        bodies = [body for body in rows if body.leads]
        moving = {row.joint for row in rows[root_rows:]}
        g = checked_array("gravity", gravity, (3,))
        lower, upper, velocity, effort = np.array([body.limits for body in bodies]).T
        model = cls(
            name=robot.name,
            joint_names=tuple(body.joint for body in bodies[root_rows:]),
            joint_links=tuple(body.link for body in bodies[root_rows:]),
            link_names=tuple(link.name for link in robot.links),
            root_link=tree.root,
            nq=len(bodies) + (1 if floating_base else 0),
            nv=len(bodies),
            lower_limit=_read_only(lower),
            upper_limit=_read_only(upper),
            velocity_limit=_read_only(velocity),
            effort_limit=_read_only(effort),
            gravity=_read_only(g),
            arrays=_arrays(rows, root_rows, g),
            link_body=tree.link_body,
            link_placement={k: _read_only(v) for k, v in tree.link_placement.items()},
            body_links=tuple(row.link for row in rows[root_rows:]),
            joint_row={row.joint: i for i, row in enumerate(rows) if i >= root_rows},
            fixed_joints=tuple(joint.name for joint in robot.joints if joint.name not in moving),
            remarks=tuple(remarks),
        )
        return with_rotors(model, rotors) if rotors else model

    def __repr__(self) -> str:
        names = self.joint_names
        shown = ", ".join(names if len(names) <= 8 else (*names[:6], "...", names[-1]))
        parts = ["floating base"] if self.floating_base else []
        parts += [f"{len(names)} joints ({shown})"] if names else []
        return (
            f"<Model {self.name!r}: {', '.join(parts)}, nv = {self.nv}, "
            f"moving mass {self.mass:.6g} kg>"
        )

    @property
    def bodies(self) -> int:
        """Number of rows of ``arrays`` that are bodies; the rows after them are rotors."""
        return len(self.joint_row) + (6 if self.floating_base else 0)

    @cached_property
    def dof_row(self) -> NDArray[np.int64]:
        """(nv,) row in ``arrays`` of each degree of freedom, not of the joints that mimic it."""
        root = np.arange(self.nv - len(self.joint_names))
        rows = [self.joint_row[name] for name in self.joint_names]
        return np.append(root, rows).astype(np.int64)

    @cached_property
    def prismatic(self) -> NDArray[np.bool_]:
        """(nv,) whether each degree of freedom is a prismatic joint; false for a floating base."""
        return np.asarray(self.arrays.joint_type[self.dof_row] == PRISMATIC)

    def torque_unit(self, dof: int | None = None) -> str:
        """Return the unit of the torque of a degree of freedom, ``N·m`` or ``N`` (prismatic).

        Without ``dof`` it is that of all, and ``N·m or N`` if they differ.
        """
        return self._unit(dof, "N·m", "N")

    def position_unit(self, dof: int | None = None) -> str:
        """Return the unit of the position, ``rad`` or ``m``, as :meth:`torque_unit` does."""
        return self._unit(dof, "rad", "m")

    def _unit(self, dof: int | None, revolute: str, prismatic: str) -> str:
        linear = self.prismatic if dof is None else self.prismatic[[dof]]
        if not linear.any():
            return revolute
        return prismatic if linear.all() else f"{revolute} or {prismatic}"

    @property
    def mimic_joints(self) -> tuple[str, ...]:
        """Names of the moving joints that mimic another joint."""
        return tuple(name for name in self.joint_row if name not in self.joint_names)

    @property
    def other_joints(self) -> tuple[str, ...]:
        """Names of all joints of the description that are not in ``joint_names``."""
        return self.mimic_joints + self.fixed_joints

    @property
    def floating_base(self) -> bool:
        """Whether the root link moves freely."""
        return self.nq != self.nv

    @property
    def mass(self) -> float:
        """Total mass of the moving bodies and of the rotors [kg]."""
        return float(self.arrays.mass.sum())

    @cached_property
    def packed(self) -> Array:
        """The constants of the model in one float64 array, the first argument of compiled kernels.

        :func:`~rbd_control.dynamics.constants.packed` defines the order of its entries.
        """
        return packed(constants_of(self.arrays))

    def with_payload(self, link: str, mass: float, com: ArrayLike, inertia: ArrayLike) -> Model:
        """Return a copy of this model with a further rigid body fixed to ``link``.

        Args:
            link: name of a link that moves.
            mass: mass of the payload [kg].
            com: centre of mass of the payload in the frame of the link, (3,) [m].
            inertia: rotational inertia about this centre of mass in the axes of the link, (3, 3)
                [kg·m²]; zero for a point mass.

        Raises:
            InputError: for an unknown link, a link that is fixed to the world, a mass or inertia
                that no body can have, or a wrong shape or number.
        """
        row = self.link_index(link)
        if row < 0:
            raise InputError(
                f"link {link!r} is fixed to the world: a payload there never moves and changes "
                f"no torque"
            )
        mass = float(checked_array("payload: mass", mass, ()))
        if mass < 0.0:
            raise InputError(f"payload: mass is {mass} kg; it must not be negative")
        com = checked_array("payload: com", com, (3,))
        inertia = checked_array("payload: inertia", inertia, (3, 3))
        if not np.allclose(inertia, inertia.T, rtol=0.0, atol=1e-9 * float(np.abs(inertia).max())):
            raise InputError("payload: inertia is not symmetric")
        wrong = violation(inertia, definite=False)
        if wrong:
            raise InputError(f"payload: {wrong}")
        placement = self.link_placement[link]
        added = placement @ pseudo_inertia(mass, com, inertia) @ placement.T
        masses, first, second = (
            part.copy()
            for part in (self.arrays.mass, self.arrays.first_moment, self.arrays.second_moment)
        )
        masses[row] += added[3, 3]
        first[row] += added[:3, 3]
        second[row] += added[:3, :3]
        arrays = self.arrays._replace(mass=masses, first_moment=first, second_moment=second)
        return replace(self, arrays=arrays)

    def joint_index(self, name: str) -> int:
        """Return the index of a joint in v and tau; its index in q is greater by ``nq - nv``.

        Raises:
            InputError: if there is no independent joint of this name; the message lists the joints.
        """
        if name not in self.joint_names:
            raise InputError(f"no joint {name!r}; joints are {', '.join(self.joint_names)}")
        return self.nv - len(self.joint_names) + self.joint_names.index(name)

    def link_index(self, link: str) -> int:
        """Return the row in ``arrays`` of the moving body of ``link``; -1 for the world.

        Raises:
            InputError: when there is no such link; the message lists them.
        """
        if link not in self.link_body:
            raise InputError(f"no link {quoted(link)}; links are {listed(self.link_names)}")
        return self.link_body[link]


def with_rotors(model: Model, rotors: Mapping[str, Rotor], *, reflected: bool = False) -> Model:
    """Return a copy of a model, with geared rotors added to its joints.

    Args:
        model: the robot without rotors.
        rotors: rotor of each driven joint, by the joint's name.
        reflected: whether to approximate the rotors, as usual, by adding ``n² I_R`` to the diagonal
            of M, with the gear ratio n and the rotational inertia I_R about the rotor's axis. The
            masses of the rotors are then not used.

    Raises:
        InputError: for a model that has rotors already, an unknown joint or a mimic joint, or a
            rotor whose numbers no rotor can have.
    """
    if np.any(model.arrays.rotor >= 0):
        raise InputError("the model has rotors already; give them all at once")
    arrays = model.arrays
    for joint, rotor in rotors.items():
        model.joint_index(joint)  # raises InputError for an unknown joint or a mimic joint
        name, row = f"rotor of joint {joint!r}", model.joint_row[joint]
        arrays = with_rotor(arrays, row, name, rotor, reflected=reflected)
    return replace(model, arrays=arrays)


def _arrays(bodies: list[Body], root_rows: int, gravity: Array) -> ModelArrays:
    subspace = np.array([body.subspace for body in bodies])
    linear = subspace[:, 3:].any(axis=1)
    joint_type = np.where(linear, PRISMATIC, REVOLUTE).astype(np.int64)
    joint_type[:root_rows] = FLOATING
    placement = np.array([body.placement for body in bodies])
    pseudo = np.array([body.pseudo for body in bodies])
    return ModelArrays(
        parent=np.array([body.parent for body in bodies], dtype=np.int64),
        dof=np.array([body.dof for body in bodies], dtype=np.int64),
        ratio=np.array([body.ratio for body in bodies]),
        rotor=np.full(len(bodies), -1, dtype=np.int64),
        joint_type=joint_type,
        rotation=placement[:, :3, :3].copy(),
        translation=placement[:, :3, 3].copy(),
        axis=subspace[:, :3] + subspace[:, 3:],
        mass=pseudo[:, 3, 3].copy(),
        first_moment=pseudo[:, :3, 3].copy(),
        second_moment=pseudo[:, :3, :3].copy(),
        gravity=gravity.copy(),
    )


def _in_doubt(doubts: Mapping[str, str]) -> str:
    """Return the remark that names the links whose inertia no rigid body can have."""
    names = [quoted(link) for link in doubts]
    left = len(names) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    first = next(iter(doubts))
    return (
        f"no rigid body can have the inertia of {'link' if len(names) == 1 else 'links'} "
        f"{', '.join(names[:MOST_NAMED])}{more}, so computed torques may be wrong; correct the "
        f"inertial in the URDF ({quoted(first)}: {doubts[first]})"
    )


def _together(remarks: Sequence[str]) -> str:
    left = len(remarks) - MOST_SAID
    return "; ".join(remarks[:MOST_SAID]) + (f"; and {left} more remarks" if left > 0 else "")


def _read_only(array: Array) -> Array:
    result = array.copy()
    result.flags.writeable = False
    return result
