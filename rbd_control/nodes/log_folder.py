"""Check of the folder that rclpy writes log files to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def log_folder_trouble() -> str:
    """Return the reason why rclpy cannot write log files, or an empty text if it can.

    The folder is ``ROS_LOG_DIR``, else ``log`` in ``ROS_HOME``, else ``~/.ros/log``; it is created
    if necessary. If it cannot be written, ``rclpy.init`` fails and cannot be called again with
    other arguments, so check before.
    """
    folder = os.environ.get("ROS_LOG_DIR") or f"{os.environ.get('ROS_HOME') or '~/.ros'}/log"
    if folder.startswith("~"):
        home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
        if not home:
            return "there is no home folder (HOME)"
        folder = home + folder[1:]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"
