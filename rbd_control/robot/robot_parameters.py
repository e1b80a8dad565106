"""The parameters of an arm, which all nodes and commands share."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter
from rbd_control.robot.effort import EffortParameters
from rbd_control.robot.friction import FrictionParameters
from rbd_control.robot.inertial_corrections import InertialCorrections
from rbd_control.robot.payload import PayloadParameters


@dataclass(frozen=True)
class DescriptionParameters(Parameters):
    """Parameters of the robot description, the joints to use, and gravity as the arm is mounted.

    Raises:
        ParameterError: if ``locked_positions`` and ``locked_joints`` have different numbers of
            values, a joint is locked twice, or ``gravity`` does not have three values.
    """

    HEADING = "Robot description"

    robot_description: str = parameter(
        "", "URDF of the robot as text; empty: urdf is used", live=False
    )
    urdf: str = parameter(
        "",
        "path of the robot's URDF, or of a xacro file with its arguments NAME:=VALUE after it, or "
        "'arm7' for the arm that ships with the package; when it and robot_description are empty, "
        "the topic robot_description is used",
        live=False,
    )
    joints: tuple[str, ...] = parameter(
        (),
        "joints in the order of parameters and commands; others are fixed at locked_positions, "
        "else at their position in joint states, else at zero or at the middle of their limits; "
        "empty: all movable joints in the order of the description; of a robot with a hand, a "
        "base or a second arm the joints whose effort is in the joint states, if these show which "
        "of them are the arm",
        live=False,
        in_description=True,
    )
    locked_joints: tuple[str, ...] = parameter(
        (),
        "joints that do not move, such as the joints of a gripper or a second arm",
        live=False,
        in_description=True,
    )
    locked_positions: tuple[float, ...] = parameter(
        (),
        "positions of locked_joints, in the same order",
        unit="rad or m",
        lower=-1e4,
        upper=1e4,
        live=False,
    )
    gravity: tuple[float, ...] = parameter(
        (0.0, 0.0, -9.81),
        "gravity in the frame of the root link: x y z; set it for an arm on a wall, a ceiling or a "
        "slope",
        unit="m/s²",
        lower=-100.0,
        upper=100.0,
        live=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.locked_positions) != len(self.locked_joints):
            raise ParameterError(
                f"locked_joints names {len(self.locked_joints)} joints but locked_positions has "
                f"{len(self.locked_positions)} values; give one for each"
            )
        if len(set(self.locked_joints)) != len(self.locked_joints):
            raise ParameterError(
                f"a joint is named twice in locked_joints: {', '.join(self.locked_joints)}"
            )
        if len(self.gravity) != 3:
            raise ParameterError(f"gravity has {len(self.gravity)} values; give x y z")

    @property
    def locked(self) -> dict[str, float]:
        """Positions of the joints in ``locked_joints`` by name [rad or m]."""
        return dict(zip(self.locked_joints, self.locked_positions, strict=True))


@dataclass(frozen=True)
class RobotParameters(
    DescriptionParameters,
    FrictionParameters,
    InertialCorrections,
    PayloadParameters,
    EffortParameters,
):
    """All parameters of an arm: its description and its identified or measured parameters.

    The section ``/**`` of a parameter file contains them and applies to every node.
    """
