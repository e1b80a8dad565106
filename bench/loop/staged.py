"""``contact_aware_controller`` as a process that measures its stages.

``python -m bench.loop.staged FILE [--ros-args ...]``. The times are written when the process ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.loop.stages import StageClock
from rbd_control.nodes.contact_aware_controller import main as run_nodes


def main(arguments: Sequence[str]) -> int:
    """Run the nodes; the first argument is the file for the times, the others are for ROS."""
    path, *ros = arguments
    clock = StageClock()
    clock.install()
    code = run_nodes([sys.argv[0], *ros])
    np.save(Path(path), clock.times)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
