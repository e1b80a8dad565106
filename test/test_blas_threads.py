"""Linear algebra uses one thread in commands, nodes and workers, unless the user asks for more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rbd_control.startup.standard_streams import VARIABLES

COMMAND = """
from contextlib import suppress
from rbd_control.cli.main import main
with suppress(SystemExit):
    main(["--version"])
"""

NODE = """
from rbd_control.startup.executables import prepare
prepare()
"""

THREADS = """
import os
before = len(os.listdir("/proc/self/task"))
import numpy as np
np.ones((500, 500)) @ np.ones((500, 500))
print(len(os.listdir("/proc/self/task")) - before)
"""


def threads(start: str, **variables: str) -> int:
    """Return the number of threads that NumPy adds after a start."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", start + THREADS],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
@pytest.mark.parametrize("start", [COMMAND, NODE], ids=["command", "node"])
def test_linear_algebra_has_one_thread(start: str) -> None:
    assert threads(start) == 0
