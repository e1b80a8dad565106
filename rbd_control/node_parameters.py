"""Parameters that a node has in addition to the parameters of its algorithm.

The algorithm of a node, here called its law, is its class without ROS, such as the contact detector
or the passivity controller. The parameter class of a node derives from some of these classes and
from the parameter class of its law, so that one object serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter
from rbd_control.robot.robot_parameters import RobotParameters

P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class NodeParameters(Parameters):
    """Parameters of every node."""

    HEADING = "Node"

    autostart: bool = parameter(
        True,
        "configure and activate by itself as soon as it can",
        live=False,
        expert=True,
    )
    thread_priority: int = parameter(
        0,
        "real-time priority (SCHED_RR) of the node once it is configured; 0: none",
        lower=0,
        upper=99,
        live=False,
    )


@dataclass(frozen=True)
class ModelParameters(NodeParameters, RobotParameters):
    """Parameters of every node with a model: the parameters of the arm."""


@dataclass(frozen=True)
class ReceivingParameters(ModelParameters):
    """Parameters of a node that subscribes to joint states: the arm, and the subscription."""

    HEADING = "Joint states"

    best_effort: bool = parameter(
        True,
        "receive joint states best-effort, which fits any publisher",
        live=False,
        expert=True,
    )
    queue_depth: int = parameter(
        200,
        "queue depth of the joint-state subscription; older joint states are lost",
        lower=1,
        upper=100_000,
        live=False,
        expert=True,
    )


@dataclass(frozen=True)
class FrameParameters(Parameters):
    """Parameter of nodes that publish in the frames of links: the prefix of link names on TF."""

    HEADING = "Frames"

    frame_prefix: str = parameter(
        "",
        "text before the names of links in header.frame_id, as the parameter of this name of "
        "robot_state_publisher puts it before the frames on TF",
        live=False,
        expert=True,
    )


@dataclass(frozen=True)
class CommandingParameters(ReceivingParameters):
    """Parameters of a node that sends torque: its joint-state subscription, and its start.

    Raises:
        ParameterError: for a ``velocity_filter``, because damping by late velocities may drive the
            arm.
    """

    HEADING = "Joint states, and other controllers"

    queue_depth: int = parameter(
        50,
        "queue depth of the joint-state subscription; torque is computed for the newest joint "
        "state, older joint states are skipped and counted",
        lower=1,
        upper=100_000,
        live=False,
        expert=True,
    )
    discovery_time: float = parameter(
        3.5,
        "time without another controller before the node activates; discovery by Fast DDS takes up "
        "to 3 s",
        unit="s",
        lower=0.0,
        upper=60.0,
        expert=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.velocity_filter:
            raise ParameterError(
                f"velocity_filter is {self.velocity_filter:g} s; a node that sends torque needs "
                "the velocities of the driver: damping by late velocities may drive the arm"
            )


@dataclass(frozen=True)
class StartCheckParameters(Parameters):
    """Parameter of the check that the detector node makes of its first seconds of motion."""

    HEADING = "Check after the start"

    start_check_time: float = parameter(
        10.0,
        "length of the motion after the start that is checked for the status check of /diagnostics;"
        " 0: no check",
        unit="s",
        lower=0.0,
        upper=60.0,
        live=False,
    )


@dataclass(frozen=True)
class GripperParameters(Parameters):
    """Parameter with which the detector node takes a grasped payload by itself."""

    HEADING = "Payload taken by itself"

    gripper_joint: str = parameter(
        "",
        "joint of the gripper in the joint states, which is no joint of the arm, such as "
        "panda_finger_joint1; a payload that the node names twice alike is taken if its contact "
        "began within 10 s after this joint moved, and put back when the joint moves again; a hand "
        "that presses down with a constant force looks the same, on an arm with much friction also "
        "another push, and is then no contact any more; empty: a payload is only named",
        live=False,
        in_description=True,
        expert=True,
    )


NODE_PARAMETERS = (
    *(item.name for item in fields(CommandingParameters)),
    *FrameParameters.names(),
    *StartCheckParameters.names(),
    *GripperParameters.names(),
)
"""Names of parameters that a node may have in addition to the parameters of its law."""


def law_parameters(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return the parameters of a law, such as the contact detector, from the values of its node.

    Args:
        kind: class of the law's parameters, such as ``DetectorParameters``.
        values: values by name of the node's section of a parameter file. Parameters that only the
            node has, in :data:`NODE_PARAMETERS`, and ``use_sim_time`` are ignored.

    Returns:
        The parameters; parameters without a value keep their defaults.

    Raises:
        ParameterError: for an invalid value, and a name that neither the law nor a node has.
    """
    own = {item.name for item in fields(kind)}
    others = {*NODE_PARAMETERS, "use_sim_time"} - own
    return kind.from_mapping({name: value for name, value in values.items() if name not in others})
