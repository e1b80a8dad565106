"""Damaged input files for the command line, made by seed, and the run that judges the outcome.

Every case is a folder with one damaged file and the arguments of ``rbd-control`` that read it::

    makers = Makers(folder)
    case = makers.case(seed)
    wrong = judge(case, run(case))

``python -m damage --count 5000`` in the folder ``test`` runs many of them.
"""

from __future__ import annotations

import io
import re
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from damage import bags, sound, tables, texts
from rbd_control.cli.main import main

SLOWEST = 5.0
"""Longest time on a processor that a case may take [s]."""

DEADLINE = 60.0
"""Time after which a case hangs, on a machine that may be busy [s]."""

MOST_MEMORY = 500.0
"""Greatest growth of the process that a case may cause [MB]."""

LONGEST_LINE = 200
"""Longest message beyond the path [characters]."""

KINDS = ("bag", "bag", "bag", "table", "table", "description", "config", "labels", "calibrate")
"""What is damaged, as often as it stands here."""


@dataclass(frozen=True)
class Case:
    """One damaged file, and the arguments of ``rbd-control`` that read it."""

    name: str
    file: Path
    arguments: tuple[str, ...]
    folder: Path

    def remove(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


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


class Makers:
    """Sound files under ``root``, and damaged ones made of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        sound_files = root / "sound"
        sound_files.mkdir(parents=True)
        self.bags = bags.Bags.write(sound_files)
        self.urdf = sound_files / "two.urdf"
        self.urdf.write_text(sound.URDF)
        self.config = sound_files / "detector.yaml"
        self.config.write_text(sound.CONFIG)
        self._csv = sound.csv_text(sound.swing(1.2))
        self.log = sound_files / "log.csv"
        self.log.write_text(self._csv)
        self._long = sound.csv_text(sound.swing(22.0, 60.0))

    def case(self, seed: int, kind: str = "") -> Case:
        """Return the case of a seed; its folder must not exist yet."""
        rng = np.random.default_rng(seed)
        kind = kind or KINDS[int(rng.integers(len(KINDS)))]
        folder = self._root / f"case_{seed}"
        folder.mkdir()
        if kind == "calibrate":
            file = tables.recording(rng, self._long, folder)
            out = str(folder / "out.yaml")
            arguments = ["calibrate", str(file), "--urdf", str(self.urdf), "--out", out]
            return Case(f"{seed} {kind}", file, tuple(arguments), folder)
        log, urdf, config, more = self.log, self.urdf, self.config, []
        if kind == "bag":
            maker = bags.MAKERS[int(rng.integers(len(bags.MAKERS)))]
            file = log = maker(rng, self.bags, folder)
            kind += f" {maker.__name__}"
        elif kind == "table":
            file = log = tables.recording(rng, self._csv, folder)
        elif kind == "description":
            file = urdf = texts.description(rng, folder)
        elif kind == "config":
            file = config = texts.config(rng, folder)
        else:
            file = tables.labels(rng, folder)
            more = ["--labels", str(file)]
        if rng.random() < 0.1:
            more += ["--json", str(folder / "out.json")]
        arguments = ["replay", str(log), "--urdf", str(urdf), "--config", str(config), *more]
        return Case(f"{seed} {kind}", file, tuple(arguments), folder)


def run(case: Case) -> Outcome:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, begin = _peak(), time.process_time()
    code: int | None = None
    raised = ""
    try:
        with _deadline(DEADLINE), redirect_stdout(out), redirect_stderr(err):
            code = main(case.arguments)
    except BaseException as error:
        raised = f"{type(error).__name__}: {str(error)[:200]}"
        if isinstance(error, KeyboardInterrupt):
            raise
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


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"took more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


def _peak() -> float:
    """Return the peak memory of the process so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
