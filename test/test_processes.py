"""Processes that end with the one that started them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, time
from pathlib import Path
from rbd_control.ros.processes import NodeProcesses

with NodeProcesses(os.environ, Path({folder!r})) as processes:
    processes.start("http.server", ["--bind", "127.0.0.1", "0"])  # any module that stays
    print(processes.pid("http.server"), flush=True)
    time.sleep(60.0)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux alone can do that")
def test_nothing_is_left_behind_by_a_parent_that_is_killed(tmp_path: Path) -> None:
    """After SIGKILL the parent cannot stop the processes that it started."""
    text = PARENT.format(folder=str(tmp_path))
    parent = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
    assert is_running(child)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10.0
    while is_running(child):
        assert time.monotonic() < deadline, "still there"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
