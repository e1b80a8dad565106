"""The parameters that nodes have beside those of the law they run.

A node's own parameter object derives from what it needs of these and from its law's, so that one
object serves both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class NodeParameters(Parameters):
    """What every node has."""

    autostart: bool = parameter(
        True, "configure and activate by itself as soon as it can", live=False
    )
    thread_priority: int = parameter(
        0,
        "real-time priority (SCHED_FIFO) of the node once it is configured; 0: none",
        lower=0,
        upper=99,
        live=False,
    )


@dataclass(frozen=True)
class ModelParameters(NodeParameters):
    """Where a node has its robot from."""

    robot_description: str = parameter(
        "", "URDF of the robot as text; empty: urdf is used", live=False
    )
    urdf: str = parameter(
        "",
        "path of the robot's URDF, or 'arm7' for the arm that ships with the package; when it and "
        "robot_description are empty, the topic robot_description is used",
        live=False,
    )
    joints: tuple[str, ...] = parameter(
        (),
        "joints in the order of parameters and commands; others are held at zero; empty: all "
        "movable ones in the order of the description",
        live=False,
    )


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


@dataclass(frozen=True)
class PayloadParameters(Parameters):
    """What the arm carries beside what its description knows."""

    payload_mass: float = parameter(0.0, "mass of the payload", unit="kg", lower=0.0, upper=1e4)
    payload_link: str = parameter("", "link that carries it; empty: that of the last joint")
    payload_com: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0),
        "its centre of mass in the frame of that link: x y z",
        unit="m",
        lower=-10.0,
        upper=10.0,
    )
    payload_inertia: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "its rotational inertia about that centre in the axes of that link: xx yy zz xy xz yz",
        unit="kg·m²",
        lower=-1e4,
        upper=1e4,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, count in (("payload_com", 3), ("payload_inertia", 6)):
            values = getattr(self, name)
            if len(values) != count:
                raise ParameterError(f"{name} has {len(values)} values; give {count}")


NODE_PARAMETERS = tuple(item.name for item in fields(CommandingParameters))
"""Names that the parameter file of a node may hold beside those of its law."""
