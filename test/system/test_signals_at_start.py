"""SIGINT and SIGTERM during a cold start end nodes and commands at once, and quietly."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .bringup import PATIENCE, BringUp

LONGEST = 3.0
"""Time to end [s], without stalls of the machine and the wait of the main thread for a processor.

The grace period is 0.5 s, compiling takes a minute.
"""

STALL = 0.1
"""What a sleep of 10 ms took longer than this is a stall of the machine [s]."""

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs Linux")


class ColdStart:
    """A program without compiled code that is ended by a signal during its start.

    Args:
        module: module to run, with its arguments.
        until: text in the output after which the signal comes; empty: once signals are handled.
        delay: further time until the signal [s].
        number: number of the signal.
    """

    def __init__(
        self, module: list[str], until: str, delay: float, number: int, bring_up: BringUp, at: Path
    ) -> None:
        self._until, self._delay, self._number = until, delay, number
        self._log, self._cache = at / "output", at / "cache"
        self.what = f"{module[0]}, {number!r} {delay} s after {until or 'it was ready'}"
        with self._log.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *module],
                env={**bring_up.environment, "NUMBA_CACHE_DIR": str(self._cache)},
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def end(self) -> tuple[int, float]:
        """Send the signal when it is time to; return the exit code and how long the end took.

        Neither the time in which the main thread waited for a processor counts, nor that in which
        the machine stalled.
        """
        deadline = time.monotonic() + PATIENCE
        while not (self._handles_signals() and self._until in self.output):
            assert self._process.poll() is None, f"{self.what} ended:\n{self.output}"
            assert time.monotonic() < deadline, f"{self.what}: nothing:\n{self.output}"
            time.sleep(0.002)
        time.sleep(self._delay)
        waited, begin = self._waited(), time.monotonic()
        self._process.send_signal(self._number)
        last, stalled = begin, 0.0
        # The entry in /proc stays until the process is waited for.
        while not os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            time.sleep(0.01)
            now = time.monotonic()
            stalled += max(0.0, now - last - STALL)
            last = now
        seconds, waited = last - begin, self._waited() - waited
        self.what += f"; took {seconds:.1f} s, waited {waited:.1f} s for a processor, stalled "
        self.what += f"{stalled:.1f} s"
        return self._process.wait(PATIENCE), seconds - max(waited, stalled)

    def clear(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._cache, ignore_errors=True)

    def _waited(self) -> float:
        """How long the main thread was ready to run and had no processor, since its start [s]."""
        times = Path(f"/proc/{self._process.pid}/schedstat").read_text(encoding="ascii")
        return 1e-9 * int(times.split()[1])

    def _handles_signals(self) -> bool:
        """Whether it has a handler for SIGTERM, which Python itself has not."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


# What has been put out, and how long after that the signal comes [s].
ORDINARY = (
    "from the default",
    "control_msgs is not installed",
    "compiling",
    "compiled in",
    "RTPS_TRANSPORT_SHM",
)
"""Log lines that a node, or Fast DDS about shared memory of killed processes, may write before the
node is configured."""

INSTANTS = (("", 0.0), ("", 0.3), ("compiling", 0.7))


@pytest.mark.parametrize("program", ["passivity_controller", "warmup"])
def test_a_signal_during_a_cold_start(program: str, bring_up: BringUp, tmp_path: Path) -> None:
    """From the first import to the middle of compiling."""
    module = [f"rbd_control.nodes.{program}", "--ros-args", "-p", "urdf:=arm7"]
    if program == "warmup":
        module = ["rbd_control.cli.main", "warmup"]
    for k, (until, delay) in enumerate(INSTANTS):
        number = (signal.SIGINT, signal.SIGTERM)[(k + len(program)) % 2]
        folder = tmp_path / str(k)
        folder.mkdir()
        start = ColdStart(module, until, delay, number, bring_up, folder)
        try:
            code, seconds = start.end()
        finally:
            start.clear()
        assert code == (130 if program == "warmup" else 0), start.what
        assert seconds < LONGEST, start.what
        said = start.output.splitlines()
        assert all(any(text in line for text in ORDINARY) for line in said), start.output
