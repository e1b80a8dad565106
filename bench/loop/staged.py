"""``contact_aware_controller`` as a process that measures the stages of :mod:`bench.loop.stages`.

``python -m bench.loop.staged FILE [--ros-args ...]``. The times are written to FILE (``.npy``) when
the process ends, as :attr:`~bench.loop.stages.StageClock.times`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.loop.stages import StageClock
from rbd_control.nodes.contact_aware_controller import main as run_nodes


def main(arguments: Sequence[str]) -> int:
    """Run the nodes, write the times of the stages, and return the exit code of the nodes.

    Args:
        arguments: the file for the times, followed by the arguments of ROS.
    """
    path, *ros = arguments
    clock = StageClock()
    clock.install()
    code = run_nodes([sys.argv[0], *ros])
    np.save(Path(path), clock.times)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
