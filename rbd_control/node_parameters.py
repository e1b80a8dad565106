"""The parameters that nodes have beside those of the law they run.

A node's own parameter object derives from what it needs of these and from its law's, so that one
object serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rbd_control.parameters import Parameters, parameter
from rbd_control.robot.robot_parameters import RobotParameters

P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class NodeParameters(Parameters):
    """What every node has."""

    autostart: bool = parameter(
        True, "configure and activate by itself as soon as it can", live=False
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
    """What every node has that works with an arm: the arm, in the names that all nodes share."""


@dataclass(frozen=True)
class ReceivingParameters(ModelParameters):
    """How joint states are received."""

    best_effort: bool = parameter(
        True, "receive joint states best-effort, which fits any publisher", live=False
    )
    queue_depth: int = parameter(
        200, "joint states kept while the node is busy", lower=1, upper=100_000, live=False
    )


@dataclass(frozen=True)
class FrameParameters(Parameters):
    """The names of the links on TF."""

    frame_prefix: str = parameter(
        "",
        "text before the names of links in header.frame_id, as the parameter of this name of "
        "robot_state_publisher puts it before the frames on TF",
        live=False,
    )


@dataclass(frozen=True)
class CommandingParameters(ReceivingParameters):
    """How a node that sends torque receives joint states, and when it starts."""

    queue_depth: int = parameter(
        50,
        "joint states that may wait in the queue while the node is busy; torque is computed for "
        "the newest one, the others are skipped and counted",
        lower=1,
        upper=100_000,
        live=False,
    )
    discovery_time: float = parameter(
        3.5,
        "time for which no other controller may be discovered before the node activates; Fast DDS "
        "needs up to 3 s to find one",
        unit="s",
        lower=0.0,
        upper=60.0,
    )


NODE_PARAMETERS = (
    *(item.name for item in fields(CommandingParameters)),
    *FrameParameters.names(),
)
"""Names that the parameter file of a node may hold beside those of its law."""


def law_parameters(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return the parameters of a law from those of its node.

    Args:
        kind: class of the law's parameters.
        values: what a parameter file gives the node; what is of the node alone is left out.

    Raises:
        ParameterError: for a value that cannot be, and a name that neither the law nor a node has.
    """
    own = {item.name for item in fields(kind)}
    others = {*NODE_PARAMETERS, "use_sim_time"} - own
    return kind.from_mapping({name: value for name, value in values.items() if name not in others})
