"""Nodes that are forked from a process that has imported the package.

The start of Python, the imports and the compiled functions are most of the processor time of a
start. One process for each worker of pytest has them behind it, and each node is forked from it.
From there on a node runs as its executable does, with its own arguments, environment and streams.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from rbd_control.ros.processes import environment as changed_environment

TESTS = Path(__file__).resolve().parent.parent

IMPORTED = "system.imported_nodes"
"""Module that the process imports; the nodes are forked from it."""

_context = get_context("forkserver")
_context.set_forkserver_preload([IMPORTED])


class ForkedNode:
    """A node in a process of its own; it has the interface of :class:`subprocess.Popen`, in part.

    Args:
        executable: name of the node's executable.
        arguments: command-line arguments after the name.
        environment: all environment variables of the node.
        log: file that receives standard output and standard error.
        preamble: Python code that runs before the node, to inject faults.

    Attributes:
        pid: number of the process.
    """

    def __init__(
        self,
        executable: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        preamble: str = "",
    ) -> None:
        log.touch()  # readers of the output do not wait for the node
        given = (executable, list(arguments), dict(environment), log, preamble)
        self._process = _context.Process(target=_run, args=given, daemon=True)
        paths = os.pathsep.join([str(TESTS), environment.get("PYTHONPATH", "")])
        with changed_environment({"PYTHONPATH": paths}):  # the first node starts the process
            self._process.start()
        pid = self._process.pid
        assert pid is not None
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, or minus the number of the signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code.

        Raises:
            TimeoutError: if it still runs after the timeout [s].
        """
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise TimeoutError
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is on the way
                os.kill(self.pid, number)

    def write_stacks(self) -> None:
        """Let it write what its threads are doing to its log, and wait shortly for that."""
        self.send_signal(signal.SIGUSR2)
        time.sleep(0.5)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self._process.kill()


def _run(
    executable: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    preamble: str,
) -> None:
    """Become the node: called in the forked process."""
    # Imported in the process that this one is forked from; a failed import is told here.
    from rbd_control.ros import transports
    from rbd_control.startup import executables

    from .imported_nodes import end_with_parent
    from .quick_discovery import QUICK, quick_profile

    if end_with_parent:
        end_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    faulthandler.register(signal.SIGUSR2, file=2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [executable, *arguments]
    if QUICK in os.environ:
        transports.udp_profile = quick_profile
    exec(compile(preamble, "preamble", "exec"), {"__name__": "preamble"})
    sys.exit(getattr(executables, executable)())
