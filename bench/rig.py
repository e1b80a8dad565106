"""Nodes of the package as named processes in a separate ROS domain, watched from outside."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.loop.usage import resident
from rbd_control.ros.processes import PATIENCE, NodeProcesses, free_domain

TRACES = ("Traceback (most recent call last)", "Fatal Python error", "terminate called", "Aborted")
"""Texts in the output of a node that indicate a failure."""

_STACK = 100
"""Maximum number of stored lines of a traceback."""

_TAIL = 7
"""Maximum number of lines that :meth:`Rig.last_lines` returns."""


@dataclass(frozen=True)
class NodeSpec:
    """One node of a rig.

    Attributes:
        executable: module of :mod:`rbd_control.nodes`, or the dotted name of another module.
        name: full name of the node, ``namespace/name``.
        arguments: further ROS arguments.
        process: name of the process and of its log file, equal for all nodes of one process. If
            empty, the node has its own process with the name of the node. A node that shares a
            process keeps its default name.
    """

    executable: str
    name: str
    arguments: Sequence[str] = ()
    process: str = ""

    @property
    def label(self) -> str:
        """Name of the process and of its log file."""
        return self.process or self.name.replace("/", ".")


class Rig:
    """Starts nodes in an unused ROS domain of this machine and watches their processes.

    It also sets ``ROS_DOMAIN_ID`` and further variables of this process, so that a node of this
    process takes part in the same domain. The methods take the full name of a node, and raise
    ``KeyError`` for an unknown name.

    Args:
        specs: nodes to run.
        config: parameter file of all nodes.
        folder: folder for the output of the nodes, one log file per process.
        environment: further environment variables of the nodes.

    Attributes:
        domain: ROS domain of all nodes.
    """

    def __init__(
        self,
        specs: Sequence[NodeSpec],
        config: Path,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._config, self._folder = config, folder
        self.domain = free_domain()
        # This process takes part in the same domain, and only on this machine.
        os.environ.update(
            ROS_DOMAIN_ID=str(self.domain),
            ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
            ROS_LOG_DIR=str(folder),
        )
        self._processes = NodeProcesses({**os.environ, **(environment or {})}, folder)
        self._read: dict[str, int] = {}
        self._started: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """Full names of the nodes."""
        return tuple(self._specs)

    def start(self, name: str) -> None:
        """Start one node, or start it again after it has ended.

        A node whose process runs already is not started.
        """
        spec = self._specs[name]
        if spec.label in self._started and self.exit_code(name) is None:
            return
        self._started.add(spec.label)
        namespace, _, node = name.rpartition("/")
        ros = ["--ros-args", "-r", f"__ns:=/{namespace}"]
        if not spec.process:
            ros += ["-r", f"__node:={node}"]
        self._processes.start(
            spec.executable,
            [*ros, "--params-file", str(self._config), *spec.arguments],
            spec.label,
        )

    def start_all(self) -> None:
        """Start all nodes."""
        for name in self._specs:
            self.start(name)

    def owns_process(self, name: str) -> bool:
        """Return whether a node is the first node of its process, to count each process once."""
        label = self._specs[name].label
        return name == next(n for n, spec in self._specs.items() if spec.label == label)

    def pid(self, name: str) -> int:
        """Return the process number of the last started process of a node."""
        return self._processes.pid(self._specs[name].label)

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a node that has ended; None while it runs."""
        return self._processes.exit_code(self._specs[name].label)

    def resident(self, name: str) -> int:
        """Return the resident memory of a node [kB]; 0 when it has ended."""
        with suppress(OSError, StopIteration):
            return resident(self.pid(name))
        return 0

    def waited(self, name: str) -> float:
        """Return the total time for which a node's main thread has waited for a processor [s].

        It is 0 where the system does not report it, and when the node has ended.
        """
        with suppress(OSError, IndexError, ValueError):
            text = Path(f"/proc/{self.pid(name)}/schedstat").read_text(encoding="ascii")
            return 1e-9 * int(text.split()[1])
        return 0.0

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the process of a node; do nothing if it has ended."""
        if self.exit_code(name) is None:
            os.kill(self.pid(name), number)

    def end(self, name: str, patience: float = PATIENCE) -> int | None:
        """Terminate a node with SIGTERM, and kill it if it does not exit in time.

        Args:
            name: full name of the node.
            patience: longest wait for the exit [s].

        Returns:
            The exit code; None if the node had to be killed.
        """
        self.signal(name, signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self.exit_code(name) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        code = self.exit_code(name)
        if code is None:
            self.kill(name)
        return code

    def kill(self, name: str, with_stack: bool = False) -> None:
        """Kill a node.

        Args:
            name: full name of the node.
            with_stack: whether to send SIGABRT first, with which the node writes the stacks of its
                Python threads to its log.
        """
        self.signal(name, signal.SIGABRT if with_stack else signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while self.exit_code(name) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self.signal(name, signal.SIGKILL)

    def output(self, name: str) -> str:
        """Return the output of a node's process since the last call; empty without output.

        While the process runs, an incomplete last line is left for the next call.
        """
        path = self._folder / f"{self._specs[name].label}.log"
        if not path.exists():
            return ""
        label = self._specs[name].label
        with path.open("rb") as log:
            log.seek(self._read.get(label, 0))
            data = log.read()
        # The last line may be half written.
        whole = data.rfind(b"\n") + 1 if self.exit_code(name) is None else len(data)
        self._read[label] = self._read.get(label, 0) + whole
        return data[:whole].decode("utf-8", "replace")

    def last_lines(self, name: str, prefix: str) -> str:
        """Return the last lines of a node's output that begin with ``prefix``, at most seven.

        Raises:
            FileNotFoundError: if the node has not been started.
        """
        path = self._folder / f"{self._specs[name].label}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([line for line in lines if line.startswith(prefix)][-_TAIL:])

    def stop(self) -> None:
        """End all nodes."""
        self._processes.stop()


def traces_in(output: str) -> list[str]:
    """Return the failures in the output of a node, each as one text.

    A failure begins with a line that contains a text of :data:`TRACES`, and has at most 100 lines.
    """
    lines, found = output.splitlines(), []
    for k, line in enumerate(lines):
        if any(sign in line for sign in TRACES):
            found.append("\n".join(lines[k : k + _STACK]))
    return found


def signature(trace: str) -> str:
    """Return the first line of a traceback that names an exception, to group equal failures.

    Numbers and addresses are replaced by ``#``. Without such a line it is the first line, or
    ``no output`` for an empty text. It has at most 200 characters.
    """
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    text = errors[0] if errors else lines[0] if lines else "no output"
    return re.sub(r"0x[0-9a-f]+|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", text)[:200]
