"""Contact detection without force sensors and passive control of robot arms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rbd_control.robot.robot import Robot

__version__ = "0.1.0"

__all__ = ["Robot"]


def __getattr__(name: str) -> object:
    """Import :class:`Robot` at its first use, because its module imports numpy and numba.

    Raises:
        AttributeError: for any other name.
    """
    if name == "Robot":
        from rbd_control.robot.robot import Robot

        return Robot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
