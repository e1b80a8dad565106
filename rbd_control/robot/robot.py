"""The arm as all nodes, commands and Python programs use it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque, mass_matrix
from rbd_control.dynamics.urdf import is_urdf_text, parse_urdf, read_urdf
from rbd_control.errors import InputError, ModelError, ModelWarning, ParameterError
from rbd_control.files.input_files import about
from rbd_control.files.xacro_files import with_file
from rbd_control.parameters import Parameters, read_parameter_file
from rbd_control.robot.arm7 import arm7_urdf
from rbd_control.robot.friction import Friction
from rbd_control.robot.joint_choice import (
    Measured,
    Reported,
    SupportingJoint,
    held_in_words,
    is_one_arm,
    supporting_joints,
)
from rbd_control.robot.payload import PayloadParameters, needed_share, require_weight
from rbd_control.robot.robot_parameters import RobotParameters

P = TypeVar("P", bound=Parameters)

_NAMES = tuple(item.name for item in fields(RobotParameters))


@dataclass(frozen=True, eq=False)
class Robot:
    """An arm: its description, and its identified or measured parameters.

    Create it by :meth:`load` or :meth:`of`.

    Attributes:
        urdf: the description as URDF text.
        description: the model of the description alone, without corrections and payload, with
            gravity as mounted.
        model: the identified model, with inertial corrections, rotor inertia and payload; use this
            model for computations.
        joints: names of the moving joints, in the order of parameters and commands.
        order: index in the model of each of ``joints``, (n,).
        parameters: the parameters, with per-joint values in the order of the model.
        held: positions by name of the joints that are fixed because they are not in ``joints``,
            without those locked by parameters [rad or m].
        reported: names of the joints in ``held`` whose position is known from joint states.
        supporting: the joints in ``held`` whose motion makes ``model`` wrong, because they carry
            the arm, see :func:`~rbd_control.robot.joint_choice.supporting_joints`.
    """

    urdf: str
    description: Model
    model: Model
    joints: tuple[str, ...]
    order: NDArray[np.intp]
    parameters: RobotParameters
    held: Mapping[str, float] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()
    supporting: tuple[SupportingJoint, ...] = ()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        node: str = "",
        locked: Mapping[str, float] = MappingProxyType({}),
        reported: Reported = MappingProxyType({}),
        measured: Measured = (),
    ) -> Robot:
        """Load an arm from a parameter file, such as ``calibrate`` writes, or from a URDF.

        Args:
            path: a ROS 2 parameter file (``.yaml`` or ``.yml``) whose section ``/**`` names the
                arm, or a URDF (path or text), or ``arm7`` for the arm that ships with the package.
                A relative ``urdf`` in a parameter file is relative to the folder of that file.
            node: name of a node whose section of the parameter file applies as well; may be empty.
            locked: positions of further joints that do not move, by name [rad or m].
            reported: positions of joints in a recording, see :meth:`of`.
            measured: joints whose effort is in a recording, see :meth:`of`.

        Raises:
            ParameterError: for impossible parameters, naming the file unless :meth:`of` raises it.
            ModelError: if the description cannot be converted to a model.
            InputError: as :meth:`of`.
        """
        if Path(path).suffix not in (".yaml", ".yml"):
            parameters = described_by(str(path))
            return cls.of(parameters, locked=locked, reported=reported, measured=measured)
        values = read_parameter_file(path, node or "/**")
        with about(path):
            parameters = robot_parameters(values)
            if not parameters.urdf and not parameters.robot_description:
                raise ParameterError("names no arm: give urdf or robot_description in section /**")
            parameters = beside(parameters, Path(path))
        return cls.of(parameters, locked=locked, reported=reported, measured=measured)

    @classmethod
    def of(
        cls,
        parameters: RobotParameters,
        text: str = "",
        *,
        locked: Mapping[str, float] = MappingProxyType({}),
        reported: Reported = MappingProxyType({}),
        measured: Measured = (),
    ) -> Robot:
        """Build an arm from its parameters.

        A joint of the description that is not in ``joints`` is fixed: at its locked position, else
        at its reported position, else at zero or, if zero is outside its limits, at the middle.

        Args:
            parameters: per-joint values in the order of ``joints``.
            text: URDF, as text or path, used if the parameters contain none.
            locked: positions of joints that do not move, by name, in addition to ``locked_joints``
                [rad or m].
            reported: positions by name in joint states, of any joints [rad or m], or a function
                that returns them for a model; it is called only if a joint is to be fixed.
            measured: joints whose effort is measured, or a function that selects them for a model.
                Only these joints move if the parameters name no joints and the robot is more than
                one serial chain (fingers, a base, a second arm); all joints if there are none.

        Raises:
            ModelError: if there is no description, it cannot be converted to a model, or a joint
                carries no mass.
            InputError: if a joint is not in the description, mimics another or is named twice; for
                a ``payload_link`` that the arm lacks, or an impossible payload.
            ParameterError: for a per-joint parameter of the wrong length, or a mass correction that
                leaves a body without mass.
        """
        urdf = description_text(parameters) or text
        if not urdf:
            raise ModelError("no robot description: give urdf or robot_description")
        if not is_urdf_text(urdf):
            urdf = read_urdf(urdf)
        still = {**parameters.locked, **locked}
        from_file = parameters.urdf and not parameters.robot_description
        with about(parameters.urdf) if from_file else nullcontext():
            robot = _described(urdf, parameters, still, reported, measured)
        return robot.with_parameters(parameters)

    @property
    def held_in_words(self) -> str:
        """Text with the joints in ``held``, their positions and the source of each; or empty."""
        return held_in_words(self.held, self.reported)

    def with_parameters(self, parameters: RobotParameters) -> Robot:
        """Return the same arm with other corrections, payload, friction or effort.

        Args:
            parameters: per-joint values in the order of ``joints``. Its description, joints and
                gravity are stored but change neither ``description`` nor ``joints``.

        Raises:
            InputError: for a ``payload_link`` that the arm lacks, or an impossible payload.
            ParameterError: for a per-joint parameter of the wrong length, or a mass correction that
                leaves a body without mass.
        """
        ordered = self.in_model_order(
            RobotParameters(**{name: getattr(parameters, name) for name in _NAMES})
        )
        model = ordered.loaded(ordered.corrected(self.description))
        for item in fields(ordered):
            if item.metadata["per_joint"]:
                ordered.for_joints(item.name, model.nv)  # refuses another number of values
        return replace(self, model=model, parameters=ordered)

    def with_payload(self, payload: PayloadParameters) -> Robot:
        """Return the same arm with another payload.

        Raises:
            InputError: for a ``payload_link`` that the arm lacks, or an impossible payload.
        """
        changes = {item.name: getattr(payload, item.name) for item in fields(PayloadParameters)}
        parameters = replace(self.parameters, **changes)
        model = parameters.loaded(parameters.corrected(self.description))
        return replace(self, model=model, parameters=parameters)

    def refuse_heavier(self, former: Robot, q: NDArray[np.float64]) -> None:
        """Raise an error if a new payload is too heavy for the motors.

        The gravity torque of each joint at ``q`` must not exceed its effort limit in the
        description. A joint above its limit is accepted if its gravity torque is no larger than
        with ``former``. A joint without effort limit is not checked.

        Args:
            former: the same arm with its previous payload.
            q: present joint positions, (nq,) [rad or m].

        Raises:
            InputError: naming the joint and the share of its limit that it needs.
        """
        limit = self.model.effort_limit
        before = needed_share(gravity_torque(former.model, q), limit)
        weight = gravity_torque(self.model, q)
        require_weight(self.model.joint_names, weight, limit, before)

    @property
    def friction(self) -> Friction:
        """Friction model of the joints, in the order of the model."""
        return self.parameters.friction(self.model.nv)

    def carrying(self, names: Collection[str]) -> frozenset[str]:
        """Return the joints among ``names`` that carry a joint of the arm.

        They lie between the root of the description and one of ``joints``; a gripper and a second
        arm do not carry the arm.
        """
        described = parse_urdf(self.urdf).joints
        holding = {joint.child: joint for joint in described}
        carriers: set[str] = set()
        for joint in described:
            above = holding.get(joint.parent) if joint.name in self.joints else None
            while above is not None and above.name not in carriers:
                carriers.add(above.name)
                above = holding.get(above.parent)
        return frozenset(carriers & set(names))

    def in_model_order(self, parameters: P) -> P:
        """Return parameters with per-joint values rearranged from the order of ``joints``.

        The values of the result are in the order of the model. This concerns per-joint values and
        joint matrices. A single value for all joints, and a value of the wrong length, remain
        unchanged.
        """
        return _rearranged(parameters, np.argsort(self.order))

    def in_joint_order(self, parameters: P) -> P:
        """Return parameters with per-joint values rearranged to the order of ``joints``.

        This is the inverse of :meth:`in_model_order`, for values that are written to a parameter
        file.
        """
        return _rearranged(parameters, self.order)


def _rearranged(parameters: P, place: NDArray[np.intp]) -> P:
    """Return parameters whose value ``i`` of each joint is the given value ``place[i]``.

    Args:
        parameters: parameters with a value for each joint, or a matrix of the joints.
        place: permutation of the joints, (n,).
    """
    n = place.size
    changes: dict[str, Any] = {}
    for item in fields(parameters):
        value = getattr(parameters, item.name)
        if item.metadata["per_joint"] and len(value) == n > 1:
            changes[item.name] = tuple(np.array(value)[place])
        if item.metadata["joint_matrix"] and len(value) == n**2:
            matrix = np.array(value).reshape(n, n)
            changes[item.name] = tuple(matrix[np.ix_(place, place)].ravel())
    return replace(parameters, **changes)


def described_by(urdf: str, parameters: RobotParameters | None = None) -> RobotParameters:
    """Return the parameters with another description.

    Args:
        urdf: URDF text, which begins with ``<``, or a value of the parameter ``urdf``.
        parameters: the other parameters; by default all have their defaults.
    """
    known = RobotParameters() if parameters is None else parameters
    if urdf.lstrip().startswith("<"):
        return replace(known, urdf="", robot_description=urdf)
    return replace(known, urdf=urdf, robot_description="")


def robot_parameters(values: Mapping[str, Any]) -> RobotParameters:
    """Return the parameters of an arm among the values of a parameter file; ignore the others.

    Args:
        values: values by name, as :func:`~rbd_control.parameters.read_parameter_file` returns them.

    Raises:
        ParameterError: for an impossible value.
    """
    return RobotParameters.from_mapping({name: values[name] for name in _NAMES if name in values})


def beside(parameters: RobotParameters, file: Path) -> RobotParameters:
    """Return the parameters with a relative path in ``urdf`` resolved.

    Args:
        parameters: parameters read from ``file``; their ``urdf`` may be relative to its folder.
        file: path of the parameter file.
    """
    urdf = parameters.urdf
    if not urdf or urdf == ARM7:
        return parameters
    return replace(parameters, urdf=with_file(urdf, lambda path: file.parent / path))


def _described(
    urdf: str,
    parameters: RobotParameters,
    still: Mapping[str, float],
    reported: Reported,
    measured: Measured,
) -> Robot:
    """Return the arm that the parameters describe, without their corrections and payload.

    ``still`` has the positions of the locked joints by name [rad or m].
    """
    gravity = tuple(parameters.gravity)
    with warnings.catch_warnings():
        # The last model that is built gives the warnings for both.
        warnings.simplefilter("ignore", ModelWarning)
        whole = Model.from_urdf(urdf, locked=still, gravity=gravity)
    names = tuple(parameters.joints) or _moving(whole, measured)
    for name in names:
        if name in whole.mimic_joints:
            raise InputError(f"joints: {name!r} mimics another joint; remove it from joints")
        if name in still:
            raise InputError(
                f"joint {name!r} is locked, but the parameter joints names it as well; remove it "
                "from joints, and its values from the parameters with one value for each joint"
            )
        if name not in whole.joint_names:
            raise InputError(
                f"no movable joint {name!r}, which the parameter joints names; joints are "
                f"{', '.join(whole.joint_names)}"
            )
    if len(set(names)) != len(names):
        raise InputError(f"joints: a joint is named twice in {', '.join(names)}")
    fixed = [name for name in whole.joint_names if name not in names]
    known = (reported(whole) if callable(reported) else reported) if fixed else {}
    held = {name: known.get(name, _standing(whole, name)) for name in fixed}
    model = Model.from_urdf(urdf, locked={**still, **held}, gravity=gravity)
    _refuse_massless(model)
    return Robot(
        urdf=urdf,
        description=model,
        model=model,
        joints=names,
        order=np.array([model.joint_index(name) for name in names], dtype=np.intp),
        parameters=RobotParameters(),
        held=held,
        reported=frozenset(fixed) & frozenset(known),
        supporting=supporting_joints(whole, names, held) if held else (),
    )


def _moving(whole: Model, measured: Measured) -> tuple[str, ...]:
    """Return the names of the joints that move if no parameter names them.

    They are those of ``measured`` if the robot is more than one arm; all if there are none.
    """
    if is_one_arm(whole):
        return whole.joint_names
    found = measured(whole) if callable(measured) else measured
    return tuple(name for name in whole.joint_names if name in found) or whole.joint_names


def _standing(model: Model, joint: str) -> float:
    """Return the assumed position of a joint without a known position [rad or m].

    It is zero or, if zero is outside the limits of the joint, the middle between them; if only one
    of them is finite, this one.
    """
    i = model.joint_index(joint)
    lower, upper = float(model.lower_limit[i]), float(model.upper_limit[i])
    if lower <= 0.0 <= upper:
        return 0.0
    finite = [limit for limit in (lower, upper) if math.isfinite(limit)]
    return sum(finite) / max(len(finite), 1)


def _refuse_massless(model: Model) -> None:
    """Raise an error for a joint that carries no mass, whose motion affects no torque."""
    inertia = np.diag(mass_matrix(model, np.linspace(0.3, 0.9, model.nq)))
    for i in np.flatnonzero(inertia <= 0.0)[:1]:
        raise ModelError(
            f"joint {model.joint_names[i]!r} carries nothing that has mass; give its link an "
            f"inertial, or leave the joint out of joints"
        )


ARM7 = "arm7"
"""Value of the parameter ``urdf`` that selects the arm that ships with the package."""


def urdf_source(name: str) -> str:
    """Return the URDF text of the shipped arm for :data:`ARM7`; any other ``name`` unchanged."""
    return arm7_urdf() if name == ARM7 else name


def description_text(parameters: RobotParameters) -> str:
    """Return the URDF text that the parameters contain or whose file they name; may be empty.

    Raises:
        ModelError: if ``urdf`` names a file that cannot be read.
    """
    if parameters.robot_description:
        return parameters.robot_description
    if not parameters.urdf:
        return ""
    source = urdf_source(parameters.urdf)
    if source != parameters.urdf:
        return source
    with about(source):
        return read_urdf(source)
