"""A run with files: worker processes make damaged files and run commands that read them."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import re
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bench.fuzz.command_line import Run, judgement, leave_room, run
from bench.fuzz.result import Failure, FileCount, FileResult
from bench.fuzz.specimens import Specimen, make
from bench.loop.usage import resident

TIMEOUT = 120.0
"""Longest time for one file; generous for a busy machine, and for code that compiles first [s]."""

ROOM = 4096
"""Memory that a worker may allocate beyond its start [MB]."""

SETTLED = 0.1
"""Share of the files after which the memory of a worker counts."""

WARM_UP = 5
"""Number of warm-up files of a worker, which are not counted."""

Show = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one damaged file.

    Attributes:
        number: number of the file in the run.
        specimen: the file and its command.
        done: the run of the command.
        what, detail: the failure and its detail, from
            :func:`~bench.fuzz.command_line.judgement`; empty without a failure.
        content: the files of a failure in base64, by relative path; empty without a failure.
        kilobytes: resident memory of the worker after the file [kB].
    """

    number: int
    specimen: Specimen
    done: Run
    what: str
    detail: str
    content: dict[str, str]
    kilobytes: int


def examine(seed: int, number: int) -> Outcome:
    """Create one damaged file, run the command that reads it, and check the result.

    Args:
        seed: seed of the run.
        number: number of the file, which with the seed determines the file.
    """
    with TemporaryDirectory(prefix="fuzz_file_") as name:
        folder = Path(name)
        specimen = make(Random(f"{seed} file {number}"), folder)
        content = _content(folder)
        done = run(specimen.arguments, folder)
        what, detail = judgement(done, specimen.damaged)
    return Outcome(
        number, specimen, done, what, detail, content if what else {}, resident(os.getpid())
    )


def _content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): b64encode(path.read_bytes()).decode()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _work(connection: Connection, seed: int) -> None:
    """Examine the files with the received numbers, until None is received."""
    for number in range(WARM_UP):  # imports and compiles
        examine(seed, number)
    # Present objects stay for the life of the process; the garbage collector need not visit them.
    gc.collect()
    gc.freeze()
    leave_room(ROOM)
    connection.send(None)
    while (number := connection.recv()) is not None:
        connection.send(examine(seed, number))


class _Worker:
    """A process that examines files one at a time."""

    def __init__(self, seed: int) -> None:
        # A forked child of a process with ROS or numba threads does not run well.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, seed), daemon=True)
        self._process.start()
        theirs.close()
        self.number: int | None = None
        self.begin = time.monotonic()
        self.is_ready = False
        self.kilobytes: list[int] = []

    def give(self, number: int) -> None:
        """Send the number of a file to the worker."""
        self.number, self.begin = number, time.monotonic()
        self.connection.send(number)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.connection.close()


class FileSession:
    """Makes and examines damaged files in several processes.

    Args:
        seed: seed of the run.
        failures: folder for the files that failed.
        show: called with the progress as text.
        workers: number of processes.

    Attributes:
        result: results so far.
    """

    def __init__(self, seed: int, failures: Path, show: Show, workers: int) -> None:
        self.result = FileResult(seed)
        self._seed, self._failures, self._show = seed, failures, show
        self._workers = [_Worker(seed) for _ in range(workers)]
        self._found: Counter[tuple[str, str, str]] = Counter()

    def run(self, files: int, seconds: float) -> None:
        """Examine ``files`` files, or as many as are possible in ``seconds`` [s]; end the workers.

        The time counts from the first file on: the workers take seconds to start.

        Raises:
            RuntimeError: if a worker does not start.
        """
        begin = first = time.monotonic()
        given = 0
        try:
            while True:
                is_over = given >= files or (given > 0 and time.monotonic() - first > seconds)
                for worker in self._workers:
                    if worker.is_ready and worker.number is None and not is_over:
                        if not given:
                            first = time.monotonic()
                        worker.give(given)
                        given += 1
                        is_over = given >= files
                busy = [w for w in self._workers if w.number is not None]
                if is_over and not busy:
                    break
                self._show(f"{self.result.files} files, {len(self.result.failures)} failures")
                self._collect()
        finally:
            self.result.seconds = time.monotonic() - begin
            self.result.growth = max((_growth(w.kilobytes) for w in self._workers), default=0.0)
            for worker in self._workers:
                worker.end()

    def _collect(self) -> None:
        """Collect the results of the workers, and replace workers that hang or have died."""
        ready: list[Any] = wait([worker.connection for worker in self._workers], timeout=0.5)
        for k, worker in enumerate(self._workers):
            what = ""
            if worker.connection in ready:
                try:
                    outcome = worker.connection.recv()
                except (EOFError, OSError):
                    what = "process ended"
                else:
                    self._take(worker, outcome)
            elif time.monotonic() - worker.begin > TIMEOUT and not self._rests(worker):
                what = f"no end within {TIMEOUT:g} s"
            if what:
                if worker.number is not None:
                    self._lost(worker.number, what)
                elif not worker.is_ready:
                    raise RuntimeError(f"a worker did not start: {what}")
                worker.end()
                self._workers[k] = _Worker(self._seed)

    def _rests(self, worker: _Worker) -> bool:
        return worker.is_ready and worker.number is None

    def _take(self, worker: _Worker, outcome: Outcome | None) -> None:
        worker.number = None
        if outcome is None:
            worker.is_ready = True
            return
        worker.kilobytes.append(outcome.kilobytes)
        specimen = outcome.specimen
        row = self.result.kinds.setdefault((specimen.kind, specimen.command), FileCount())
        row.files += 1
        row.longest = max(row.longest, outcome.done.seconds)
        if outcome.what:
            row.failures += 1
            self._fail(outcome)
        elif outcome.done.code == 0:
            row.accepted += 1
        else:
            row.refused += 1

    def _fail(self, outcome: Outcome) -> None:
        specimen = outcome.specimen
        # Numbers and texts of the file differ each time; the first words do not.
        detail = outcome.detail
        if outcome.what != "traceback":
            detail = re.sub(r"'[^']*'|[-+]?\d+(\.\d+)?(e[-+]?\d+)?", "#", detail)[:80]
        failure = Failure(outcome.what, f"{specimen.command}, {specimen.kind}", detail)
        self._found[failure.signature] += 1
        saved = ""
        if self._found[failure.signature] == 1:
            saved = str(self._save(outcome))
        self.result.failures.append(
            Failure(
                failure.what,
                failure.where,
                failure.detail,
                kind=specimen.kind,
                scene=outcome.number,
                trace=outcome.done.trace or outcome.done.error[:2000],
                saved=saved,
            )
        )

    def _lost(self, number: int, what: str) -> None:
        """Record a file whose worker crashed or hung."""
        with TemporaryDirectory(prefix="fuzz_file_") as name:
            specimen = make(Random(f"{self._seed} file {number}"), Path(name))
            content = _content(Path(name))
        row = self.result.kinds.setdefault((specimen.kind, specimen.command), FileCount())
        row.files += 1
        row.failures += 1
        self._fail(Outcome(number, specimen, Run(None, "", "", TIMEOUT), what, what, content, 0))

    def _save(self, outcome: Outcome) -> Path:
        self._failures.mkdir(parents=True, exist_ok=True)
        path = self._failures / f"file_{outcome.number:05d}.json"
        content = {
            "seed": self._seed,
            "file": outcome.number,
            "what": outcome.what,
            "detail": outcome.detail,
            "kind": outcome.specimen.kind,
            "damaged": outcome.specimen.damaged,
            "arguments": outcome.specimen.arguments,
            "trace": outcome.done.trace or outcome.done.error[:2000],
            "content": outcome.content,
        }
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path


def repeat_file(content: dict[str, Any]) -> tuple[Run, str, str]:
    """Run the command of a saved failure again; return the run, the failure and its detail.

    Args:
        content: content of the JSON file that :class:`FileSession` saved.
    """
    with TemporaryDirectory(prefix="fuzz_file_") as name:
        for relative, data in content["content"].items():
            path = Path(name) / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b64decode(data))
        done = run(content["arguments"], Path(name))
        return (done, *judgement(done, content["damaged"]))


def fuzz_files(
    seed: int, files: int, seconds: float, failures: Path, show: Show, workers: int = 0
) -> FileResult:
    """Fuzz the command line with damaged files; return the results.

    Args:
        seed: seed of the run.
        files: number of files.
        seconds: longest duration [s].
        failures: folder for the files that failed.
        show: called with the progress as text.
        workers: number of processes; 0: one for each core, four at the most.
    """
    count = workers or min(os.cpu_count() or 1, 4)
    session = FileSession(seed, failures, show, count)
    session.run(files, seconds)
    return session.result


def _growth(kilobytes: list[int]) -> float:
    settled = kilobytes[int(SETTLED * len(kilobytes)) :]
    return (settled[-1] - settled[0]) / 1024.0 if len(settled) > 1 else 0.0
