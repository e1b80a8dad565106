"""Contact without force sensors, motion without surprise: dynamics, estimation, control."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbd_control.robot.robot import Robot

__version__ = "0.1.0"

__all__ = ["Robot"]


def __getattr__(name: str) -> object:
    """Import :class:`Robot` when it is first used: it takes numpy and numba with it."""
    if name == "Robot":
        from rbd_control.robot.robot import Robot

        return Robot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
