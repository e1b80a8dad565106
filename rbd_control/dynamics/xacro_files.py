"""Expansion of xacro files to URDF, if the Python package xacro is installed."""

from __future__ import annotations

import os

from rbd_control.errors import ModelError
from rbd_control.files.input_files import is_absent, reason

SUFFIX = ".xacro"


def is_xacro(path: str | os.PathLike[str]) -> bool:
    """Return whether a path ends in ``.xacro``, as in ``arm.urdf.xacro``; no file is read."""
    return os.fspath(path).endswith(SUFFIX)


def expanded(path: str | os.PathLike[str]) -> str:
    """Return the URDF text that a xacro file expands to, with its default arguments.

    Raises:
        ModelError: when xacro is not installed, or the file does not exist or cannot be expanded.
    """
    try:
        import xacro
    except ImportError:
        raise ModelError(
            "is a xacro file, and xacro is not installed: install it (Debian and ROS: "
            "ros-<distribution>-xacro; PyPI: xacro), or expand the file to URDF"
        ) from None
    if is_absent(path):
        raise ModelError("there is no such file; give the path of a URDF or xacro file")
    try:
        text: str = xacro.process_file(os.fspath(path)).toxml()
    # xacro passes on exceptions of any type from the expressions in the file.
    except Exception as error:
        raise ModelError(f"xacro cannot expand it: {reason(error)}") from error
    return text
