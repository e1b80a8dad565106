"""Starts the package's executables as processes and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import rbd_control
from rbd_control.ros.processes import ending_with_parent

from .forked_nodes import ForkedNode

SOURCE = Path(rbd_control.__file__).resolve().parent.parent

PATIENCE = 120.0
"""Deadline of whatever should take a second or two [s]; a first run compiles."""

REPORT_PERIOD = 0.25
"""Period of the diagnostics of forked nodes [s], for which the tests wait; by default it is 1 s."""

STANDSTILL = 1.0
"""Timeout of the controllers, the longest: on a busy machine joint states may be late [s]."""


def command(executable: str) -> list[str]:
    """How to start an executable of this environment, or its module when it is not installed."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    places = [Path(prefix, "lib", "rbd_control", executable) for prefix in prefixes if prefix]
    for place in (Path(sys.executable).parent / executable, *places):
        if place.is_file():
            return [str(place)]
    return [sys.executable, "-m", f"rbd_control.nodes.{executable}"]


SINGLE_THREADED = "import sys; sys.modules['rclpy.experimental'] = None"
"""Preamble that leaves a node without the events executor, as on older rclpy."""


def with_preamble(executable: str, preamble: str) -> list[str]:
    """Return the command that runs Python code and then the node in the same process."""
    module = f"rbd_control.nodes.{executable}"
    code = f"{preamble}\nimport sys\nfrom {module} import main\nsys.exit(main())"
    return [sys.executable, "-c", code]


class Process:
    """One started executable.

    Args:
        process: the process.
        log: file that receives its standard output and standard error.
    """

    def __init__(self, process: subprocess.Popen[bytes] | ForkedNode, log: Path) -> None:
        self._process, self._log = process, log

    @classmethod
    def of(cls, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Process:
        """Start a command with this environment, and no other variables."""
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                preexec_fn=ending_with_parent(),
            )
        return cls(process, log)

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Wait for something it does; fails when it ends first."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert self._process.poll() is None, f"ended:\n{self.output}"
            assert time.monotonic() < deadline, f"nothing within {timeout} s:\n{self.output}"
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self, number: int = 0, timeout: float = PATIENCE) -> None:
        """Send a signal, by default SIGTERM, and check that the process ends with exit code 0."""
        self.signal(number or signal.SIGTERM)
        assert self.wait(timeout) == 0, self.output

    def pause(self) -> None:
        """Stop it with SIGSTOP, and wait until all of its threads stand still."""
        self.signal(signal.SIGSTOP)
        self.wait_until(self._stands_still)

    def _stands_still(self) -> bool:
        try:
            tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
            stats = [(task / "stat").read_text(encoding="ascii") for task in tasks]
        except (FileNotFoundError, ProcessLookupError):  # a thread has ended meanwhile
            return False
        return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end; the exit code."""
        try:
            return self._process.wait(timeout)
        except (subprocess.TimeoutExpired, TimeoutError):
            if isinstance(self._process, ForkedNode):
                self._process.write_stacks()
            raise AssertionError(f"did not end within {timeout} s:\n{self.output}") from None

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class BringUp:
    """Starts executables in one ROS domain; :meth:`stop` ends them all."""

    def __init__(self, domain: int, folder: Path) -> None:
        self.domain = domain
        self._folder = folder
        self._processes: list[Process] = []
        self.environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_PYTHON_CHECK_FIELDS": "1",
            "ROS_LOG_DIR": str(folder),
            "PYTHONPATH": os.pathsep.join(
                p for p in (str(SOURCE), os.environ.get("PYTHONPATH", "")) if p
            ),
        }

    def start(
        self,
        executable: str,
        parameters: Mapping[str, Any] | None = None,
        ros_arguments: Sequence[str] = (),
        preamble: str = "",
        is_forked: bool = True,
    ) -> Process:
        """Start one with parameters from a file, as a launch file would.

        Args:
            executable: name of the executable.
            parameters: values of its parameters.
            ros_arguments: arguments after ``--ros-args``.
            preamble: Python code that runs before the node, to inject faults.
            is_forked: whether the node is forked from a process that has imported the package,
                which is faster; otherwise the executable is started.
        """
        number = len(self._processes)
        log = self._folder / f"{number}.log"
        arguments = ["--ros-args", *ros_arguments]
        if parameters:
            file = self._folder / f"{number}.yaml"
            content = {"/**": {"ros__parameters": dict(parameters)}}
            file.write_text(yaml.safe_dump(content), encoding="utf-8")
            arguments += ["--params-file", str(file)]
        if is_forked:
            node = ForkedNode(executable, arguments, self.environment, log, preamble)
            process = Process(node, log)
        else:
            start = with_preamble(executable, preamble) if preamble else command(executable)
            process = Process.of([*start, *arguments], self.environment, log)
        self._processes.append(process)
        return process

    def run(
        self,
        *arguments: str,
        module: str = "rbd_control.cli.main",
        folder: Path | None = None,
        timeout: float = PATIENCE,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``rbd-control``, or another module, to its end.

        Args:
            arguments: command-line arguments.
            module: dotted name of the module.
            folder: working directory; None for that of the tests.
            timeout: longest time [s].
        """
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    @property
    def started(self) -> int:
        """Number of processes that were started."""
        return len(self._processes)

    def end_others(self, started: int) -> None:
        """End all processes but the first ``started``; each withdraws from discovery if it can."""
        others = [process for process in self._processes[started:] if process.is_running]
        for process in others:
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + 10.0
        while any(process.is_running for process in others) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in others:
            process.kill()

    def output(self) -> str:
        """Return what all processes have written, for a failing test to show."""
        return "\n".join(process.output for process in self._processes)

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
        self._processes.clear()
