"""Damaged input files for the command line, and the run that judges the outcome."""

from __future__ import annotations

import io
import re
import resource
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from damage import bags, sound
from rbd_control.cli.main import main

SLOWEST = 5.0
"""Longest time on a processor that a case may take [s]."""

MOST_MEMORY = 500.0
"""Greatest growth of the process that a case may cause [MB]."""

LONGEST_LINE = 200
"""Longest message beyond the path [characters]."""


@dataclass(frozen=True)
class Case:
    """One damaged file, and the arguments of ``rbd-control`` that read it."""

    file: Path
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What a run of the command line did; ``code`` is None when it raised or did not end."""

    code: int | None
    out: str
    err: str
    seconds: float
    growth: float
    """Growth of the peak memory of the process [MB]."""
    raised: str


class Sound:
    """Sound files under ``root``, which damaged ones are made of."""

    def __init__(self, root: Path) -> None:
        self.bags = bags.Bags.write(root)
        self.urdf, self.config = root / "two.urdf", root / "detector.yaml"
        self.urdf.write_text(sound.URDF)
        self.config.write_text(sound.CONFIG)
        self.log = root / "log.csv"
        self.log.write_text(sound.csv_text(sound.swing(1.2)))

    def replayed(self, file: Path, kind: str = "log") -> Case:
        """Return the case of ``replay`` on a file of some kind, with the sound files beside it."""
        files = {"log": self.log, "urdf": self.urdf, "config": self.config, kind: file}
        log = files.pop("log")
        options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
        return Case(file, ("replay", str(log), *options))


def run(case: Case) -> Outcome:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, begin = _peak(), time.process_time()
    code: int | None = None
    raised = ""
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(case.arguments)
    except Exception as error:
        raised = f"{type(error).__name__}: {str(error)[:200]}"
    return Outcome(
        code,
        out.getvalue(),
        err.getvalue(),
        time.process_time() - begin,
        _peak() - before,
        raised,
    )


def judge(case: Case, outcome: Outcome) -> list[str]:
    """Return what is wrong with the outcome of a case; nothing if all is well."""
    wrong = []
    # Warnings about a robot's description are for whoever gave it; they change nothing else.
    lines = outcome.err.splitlines(keepends=True)
    err = "".join(line for line in lines if not line.startswith("rbd-control: warning: "))
    if outcome.raised:
        wrong.append(f"raised {outcome.raised}")
    elif outcome.code not in (0, 1, 2):
        wrong.append(f"exit code {outcome.code}: {outcome.err.strip()[:300]}")
    if "Traceback" in outcome.err + outcome.out:
        wrong.append("a traceback")
    if outcome.seconds > SLOWEST:
        wrong.append(f"took {outcome.seconds:.1f} s")
    if outcome.growth > MOST_MEMORY:
        wrong.append(f"took {outcome.growth:.0f} MB")
    if outcome.code in (1, 2):
        wrong += _judge_line(case, err)
    elif outcome.code == 0 and err:
        wrong.append(f"exit code 0, yet on stderr: {err[:200]!r}")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", outcome.err):
        wrong.append("control characters on stderr")
    return wrong


def _judge_line(case: Case, err: str) -> list[str]:
    """Return what is wrong with the one line on stderr."""
    wrong = []
    if err.count("\n") != 1 or not err.startswith("rbd-control: "):
        wrong.append(f"{err.count(chr(10))} lines on stderr: {err[:300]!r}")
    # Of two files that do not fit each other either can be named.
    paths = [_as_printed(text) for text in case.arguments if text.startswith("/")]
    named = next((path for path in paths if err.startswith(f"rbd-control: {path}")), "")
    if not named:
        wrong.append(f"does not name {case.file}: {err[:300]!r}")
    beyond = err.rstrip("\n").partition(": ")[2].removeprefix(named)
    beyond = beyond.partition(": ")[2]  # a file within a folder that was named
    if len(beyond) > LONGEST_LINE:
        wrong.append(f"{len(beyond)} characters: {beyond[:400]!r}")
    if "internal error" in err:
        wrong.append(f"an internal error: {err[:300]!r}")
    return wrong


def _as_printed(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _peak() -> float:
    """Return the peak memory of the process so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
