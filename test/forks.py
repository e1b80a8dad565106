"""Starts processes by fork from one that has imported numba, which takes most of a short process.

``python forks.py CODE`` reads orders from the standard input and answers each in a line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from unprivileged import unprivileged

NO_SPACE = "no space"
"""Files end at 1000 bytes, in the middle of a write as on a disk that is full."""
UNPRIVILEGED = "unprivileged"
"""File permissions bind the process even if it runs as root."""


@dataclass(frozen=True)
class Fork:
    """A forked process."""

    forks: Forks
    pid: int

    def communicate(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code, the standard output and the standard error."""
        code, out, err = self.forks.order({"wait": self.pid})
        return code, out, err


class Forks:
    """A process that has imported and compiled once, and forks for each run of ``code``.

    Args:
        code: Python code that each fork runs.
        path: folders from which it imports, as in ``PYTHONPATH``.
    """

    def __init__(self, code: str, path: str) -> None:
        folder = Path(__file__).parent
        self._process = subprocess.Popen(
            [sys.executable, __file__, code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((path, str(folder)))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def order(self, order: dict[str, Any]) -> Any:
        """Send an order and return its answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, folder: Path, environment: Mapping[str, str], restriction: str = "") -> Fork:
        """Start a fork that imports from ``folder`` first, with this environment."""
        order = {"folder": str(folder), "environment": dict(environment)}
        return Fork(self, self.order(order | {"restriction": restriction}))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _run(order: dict[str, Any], code: str, out: int, err: int) -> NoReturn:
    """Run ``code`` in this process, a new fork, and end it."""
    from numba.core import config

    status = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.clear()
        os.environ.update(order["environment"])
        config.reload_config()
        sys.path.insert(0, order["folder"])
        sys.dont_write_bytecode = True
        if order["restriction"] == NO_SPACE:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        drop = unprivileged() if order["restriction"] == UNPRIVILEGED else None
        if drop:
            drop()
        exec(code, {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _text(pipe: int) -> str:
    """Return all that was written to a pipe, and close it."""
    with open(pipe) as stream:
        return stream.read()


def _serve(code: str) -> None:
    """Import and compile, then fork and wait as ordered until the standard input ends."""
    import numba

    import rbd_control.dynamics  # noqa: F401 - for the forks

    # The first compilation imports half of numba, which the forks then need not.
    numba.njit(lambda x: 2.0 * x)(1.0)
    pipes: dict[int, tuple[int, int]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            # A pipe holds 64 kB, so that a fork ends without a reader.
            texts = [_text(pipe) for pipe in pipes.pop(order["wait"])]
            answer = [os.waitstatus_to_exitcode(status), *texts]
        else:
            (out, out_end), (err, err_end) = os.pipe(), os.pipe()
            answer = os.fork()
            if answer == 0:
                _run(order, code, out_end, err_end)
            os.close(out_end)
            os.close(err_end)
            pipes[answer] = out, err
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
