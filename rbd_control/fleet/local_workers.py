"""Worker processes on this machine; if a process dies, only its present recording is affected."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from rbd_control.errors import RbdControlError
from rbd_control.fleet.jobs import Job, prepare, run_job
from rbd_control.fleet.outcome import Outcome
from rbd_control.startup.standard_streams import one_thread_in_children

ATTEMPTS = 3
"""Number of worker processes that may die with the same recording until it is reported as bad.

It is also the number of processes in a row that may die without a job before the run ends."""


def usable_cores() -> int:
    """Return the number of processor cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalWorkers:
    """Runs jobs in processes of this machine, each with one job at a time.

    Args:
        count: number of processes, at least 1.
        preparation: called without arguments in each process before its first job, also in a
            process that replaces another. It must be picklable, because processes are spawned. The
            other processes call it after the first process has finished it.
    """

    def __init__(self, count: int, preparation: Callable[[], Any] = prepare) -> None:
        self._count = count
        self._preparation = preparation

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index in ``jobs`` and the outcome of each job in the order of completion.

        A job whose worker died is repeated, up to :data:`ATTEMPTS` attempts in total; then its
        outcome has the status ``bad``.

        Raises:
            RbdControlError: if :data:`ATTEMPTS` workers in a row die without a job, such as in the
                preparation.
        """
        crew = _Crew(min(self._count, len(jobs)), self._preparation)
        try:
            yield from crew.run([partial(run_job, job) for job in jobs])
        finally:
            crew.close()


class _Worker:
    """One process with its connection and its present job.

    Attributes:
        task: index of its job; None if it is idle or runs the preparation.
        is_told: whether the preparation was requested.
        is_prepared: whether the preparation has ended.
    """

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        with one_thread_in_children():
            self.process.start()
        theirs.close()
        self.task: int | None = None
        self.is_told = False
        self.is_prepared = False

    def prepare(self, preparation: Callable[[], Any]) -> None:
        """Request the preparation, unless it was requested already."""
        if not self.is_told:
            self.is_told = True
            self.send(preparation)

    def send(self, call: Callable[[], Any]) -> None:
        # The sentinel of a process that has ended becomes ready.
        with suppress(OSError):
            self.connection.send(call)

    def received(self) -> Any:
        """Return the message of the worker.

        Raises:
            EOFError, OSError: if it has ended without a message.
        """
        if not self.connection.poll():
            raise EOFError
        return self.connection.recv()

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class _Crew:
    """Worker processes and the queue of jobs.

    The first worker loads the compiled code before the other workers. If there is no compiled code
    yet, it compiles, and the other workers load its code from disk.
    """

    def __init__(self, count: int, preparation: Callable[[], Any]) -> None:
        self._preparation = preparation
        self._failures = 0
        self._workers = [_Worker() for _ in range(count)]
        self._waiting: deque[int] = deque()
        self._lost: Counter[int] = Counter()
        self._calls: Sequence[Callable[[], Outcome]] = ()
        for worker in self._workers[:1]:
            worker.prepare(preparation)

    def run(self, calls: Sequence[Callable[[], Outcome]]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index and the outcome of each call."""
        self._calls = calls
        self._waiting.extend(range(len(calls)))
        missing = len(calls)
        while missing:
            sources = [worker.connection for worker in self._workers]
            wait([*sources, *(worker.process.sentinel for worker in self._workers)])
            for place, worker in enumerate(self._workers):
                if not worker.connection.poll() and worker.process.is_alive():
                    continue
                for answer in self._answers(place, worker):
                    missing -= 1
                    yield answer

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.end()

    def _answers(self, place: int, worker: _Worker) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome that a worker sent, or that its death caused; assign the next job."""
        try:
            outcome = worker.received()
        except (EOFError, OSError):
            yield from self._replace(place, worker)
            return
        if worker.is_prepared and worker.task is not None:
            yield worker.task, outcome
        elif not worker.is_prepared:
            self._prepared(worker)
        self._next(worker)

    def _prepared(self, worker: _Worker) -> None:
        """Request the preparation of the other workers after that of the first worker."""
        worker.is_prepared = True
        self._failures = 0
        for each in self._workers:
            each.prepare(self._preparation)

    def _next(self, worker: _Worker) -> None:
        """Assign the next job to a worker, if there is one."""
        worker.task = self._waiting.popleft() if self._waiting else None
        if worker.task is not None:
            worker.send(self._calls[worker.task])

    def _replace(self, place: int, worker: _Worker) -> Iterator[tuple[int, Outcome]]:
        """Replace a worker that has ended, and put its job back into the queue."""
        worker.end()
        how = _ending(worker.process.exitcode)
        if worker.task is None:
            self._failures += 1
            if self._failures >= ATTEMPTS:
                raise RbdControlError(f"worker processes cannot start: they were {how}")
        else:
            self._lost[worker.task] += 1
            if self._lost[worker.task] < ATTEMPTS:
                self._waiting.append(worker.task)
            else:
                yield (
                    worker.task,
                    Outcome.bad(f"ended its worker process {ATTEMPTS} times, which was {how}"),
                )
        self._workers[place] = _Worker()
        self._workers[place].prepare(self._preparation)


def _ending(code: int | None) -> str:
    """Return as text how a process ended."""
    if code is not None and code < 0:
        return f"killed by signal {-code}"
    return f"ended with exit code {code}"


def _work(connection: Connection) -> None:
    """Run the calls that arrive until the connection is closed; the main function of a worker."""
    # Ctrl-C goes to all processes of the terminal; the workers end with their parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            connection.send(connection.recv()())
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        sys.stdout.flush()
        os._exit(1)
