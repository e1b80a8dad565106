"""An error message instead of a traceback if ROS 2 is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rbd_control.errors import RbdControlError


@contextmanager
def ros_needed(what: str) -> Iterator[None]:
    """Convert failing imports in this context to an error that says how to install ROS 2.

    Args:
        what: name of the command or function that needs ROS, for the error.

    Raises:
        RbdControlError: if a module from outside this package is not found; the error names it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "rbd_control":
            raise
        raise RbdControlError(
            f"{what} needs ROS 2, and {error.name} is not installed: source a ROS 2 "
            "installation, or pip install '.[ros]' in a clone of rbd_control"
        ) from error
