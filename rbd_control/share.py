"""Location of the installed files of the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def share_directory() -> Path:
    """Return the folder that contains ``config/`` and ``launch/``.

    The search order is: the source checkout of this file, the ROS 2 workspaces on
    ``AMENT_PREFIX_PATH``, and the prefix of the running Python.

    Raises:
        FileNotFoundError: with the searched places.
    """
    checkout = Path(__file__).resolve().parent.parent
    prefixes = [p for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    installed = [Path(p) / "share" / "rbd_control" for p in (*prefixes, sys.prefix)]
    if (checkout / "package.xml").is_file() and (checkout / "config").is_dir():
        return checkout
    for place in installed:
        if (place / "config").is_dir():
            return place
    raise FileNotFoundError(
        f"rbd_control's share files are in none of {', '.join(map(str, (checkout, *installed)))}"
    )
