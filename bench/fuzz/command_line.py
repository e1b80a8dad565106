"""One run of ``rbd-control`` inside this process, and the check of its output."""

from __future__ import annotations

import io
import os
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from rbd_control.cli.exit_codes import BAD_INPUT, NO_RESULT
from rbd_control.cli.main import main

WARNING = "rbd-control: warning: "
"""Beginning of a warning, such as about an inertia that no rigid body can have."""

MISMATCHES = (
    "has no joint",
    "has no verdict at any time",
    "is implausible in",
    "times the model's torque",
    "which the parameter joints names",
)
"""Errors that name another file than the damaged one, because that file is valid.

A damaged description may still be valid, with another name of a joint or another mass.
"""

LONGEST_ERROR = 300
"""Longest message for a bad input [characters]."""


@dataclass(frozen=True)
class Run:
    """Result of one run of a command.

    Attributes:
        code: exit code; None after an uncaught exception.
        error: output on stderr.
        trace: traceback of the uncaught exception; empty without an exception.
        seconds: duration of the run [s].
    """

    code: int | None
    error: str
    trace: str
    seconds: float


def run(arguments: Sequence[str], folder: Path) -> Run:
    """Run ``rbd-control`` in this process, with ``folder`` as working directory.

    Args:
        arguments: arguments of the command.
        folder: working directory; the previous directory is restored afterwards.
    """
    output, error = io.StringIO(), io.StringIO()
    begin = time.monotonic()
    code: int | None = None
    trace = ""
    before = os.getcwd()
    os.chdir(folder)
    try:
        with redirect_stdout(output), redirect_stderr(error), warnings.catch_warnings():
            # Each run must give the output that a separate process would give.
            warnings.simplefilter("always")
            code = main(list(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # whatever would end the process with a traceback
        trace = traceback.format_exc()
    finally:
        os.chdir(before)
    return Run(code, error.getvalue(), trace, time.monotonic() - begin)


def judgement(done: Run, damaged: Sequence[str]) -> tuple[str, str]:
    """Return the failure of a run and its detail; both are empty if the run was correct.

    A run is correct if it ends with exit code 0 and no output on stderr except warnings, or with
    the exit code of a bad input or a missing result and one line of at most :data:`LONGEST_ERROR`
    characters that names a damaged file or is one of :data:`MISMATCHES`.

    Args:
        done: the run.
        damaged: names of the damaged files; the message about a refused input must contain one.
    """
    if done.trace:
        return "traceback", done.trace.strip().splitlines()[-1][:200]
    if "Traceback" in done.error:
        return "traceback", done.error.strip().splitlines()[-1][:200]
    lines = done.error.strip().splitlines()
    if done.code == 0:
        more = [line for line in lines if not line.startswith(WARNING)]
        return ("output on stderr", more[0][:200]) if more else ("", "")
    if done.code not in (NO_RESULT, BAD_INPUT):
        return "exit code", f"{done.code}: {lines[-1][:200] if lines else ''}"
    errors = [line for line in lines if not line.startswith(WARNING)] or lines
    if len(errors) != 1:
        return "not one line", f"{len(lines)} lines: {lines[0][:200] if lines else ''}"
    if len(errors[0]) > LONGEST_ERROR:
        return "long line", f"{len(errors[0])} characters: {errors[0][:100]}"
    if not any(text in errors[0] for text in (*MISMATCHES, *damaged)):
        return "file not named", errors[0]
    return "", ""


def leave_room(megabytes: int) -> None:
    """Limit the further memory of this process, so that excessive allocation raises MemoryError.

    Args:
        megabytes: memory that may be allocated from now on [MB].
    """
    try:
        import resource
    except ImportError:  # not on this system
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * 2**20,) * 2)
