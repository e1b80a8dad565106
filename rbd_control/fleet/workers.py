"""Workers that run the jobs of a fleet: processes of this machine, or of a Dask cluster.

If a process dies, only its present recording is affected. The Dask cluster needs the extra
``fleet``.
"""

from __future__ import annotations

import multiprocessing
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Protocol

from rbd_control import __version__
from rbd_control.errors import RbdControlError
from rbd_control.files.input_files import reason
from rbd_control.fleet.jobs import Job, prepare, run_job, worker_version
from rbd_control.fleet.store import Outcome
from rbd_control.startup.prompt_end import end_with_parent
from rbd_control.startup.standard_streams import one_thread_in_children

ATTEMPTS = 3
"""Number of worker processes that may die with the same recording until it is reported as bad.

It is also the number of processes in a row that may die without a job before the run ends."""


class Workers(Protocol):
    """Interface of the workers that run jobs: processes on this machine, or a Dask cluster."""

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index in ``jobs`` and the outcome of each job in the order of completion.

        A job that fails has an outcome with the status ``bad``.

        Raises:
            RbdControlError: if the workers cannot run.
        """


class LocalWorkers:
    """Runs jobs in processes of this machine, each with one job at a time.

    Args:
        count: number of processes, at least 1.
        preparation: called without arguments in each process before its first job, also in a
            process that replaces another. It must be picklable, because processes are spawned. The
            other processes call it after the first process has finished it: if there is no compiled
            code yet, the first compiles it, and the others load it from disk.
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
        count = min(self._count, len(jobs))
        idle: SimpleQueue[_Worker] = SimpleQueue()
        workers = [_Worker(self._preparation) for _ in range(count)]
        threads = ThreadPoolExecutor(count)

        def outcome(job: Job) -> Outcome:
            worker = idle.get()
            try:
                return worker.outcome(job)
            finally:
                idle.put(worker)

        try:
            for number, worker in enumerate(workers):
                if not number:
                    worker.prepare()
                idle.put(worker)
            futures = {threads.submit(outcome, job): k for k, job in enumerate(jobs)}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


class _Worker:
    """A worker process, and the processes that replace it."""

    def __init__(self, preparation: Callable[[], Any]) -> None:
        self._preparation = preparation
        self._is_prepared = False
        self._start()

    def outcome(self, job: Job) -> Outcome:
        """Return the outcome of a job; repeat the job in a new process if the process dies."""
        for _ in range(ATTEMPTS):
            self.prepare()
            if (outcome := self._result(run_job, job)) is not None:
                return outcome
        return Outcome.bad(f"ended its worker process {ATTEMPTS} times")

    def prepare(self) -> None:
        """Call the preparation, unless it has been called in the present process.

        Raises:
            RbdControlError: if :data:`ATTEMPTS` processes die in it.
        """
        for _ in range(ATTEMPTS):
            if self._is_prepared:
                return
            self._is_prepared = self._result(self._preparation) is not None
        if not self._is_prepared:
            raise RbdControlError("worker processes cannot start: they end during their start")

    def end(self) -> None:
        """End the process after its present job."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, initializer=end_with_parent)
        with one_thread_in_children():
            self._pool.submit(worker_version)

    def _result(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a call; None if the process dies, which is then replaced."""
        try:
            return self._pool.submit(function, *arguments).result()
        except (BrokenProcessPool, SystemExit):
            self.end()
            self._is_prepared = False
            self._start()
            return None


PATIENCE = 60
"""Longest wait for the scheduler and for its first worker [s]."""


class DaskWorkers:
    """Runs jobs on the workers of a Dask scheduler.

    Dask repeats the jobs of a lost worker on other workers, and abandons a job after several lost
    workers (``distributed.scheduler.allowed-failures``). It also abandons a job that did not end
    its workers itself, but ran on them beside the job that did. Therefore each abandoned job is
    repeated once, alone, after all other jobs. If Dask abandons it again, its recording is reported
    as bad.

    Args:
        address: address of the scheduler, such as ``tcp://host:8786``.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index in ``jobs`` and the outcome of each job in the order of completion.

        Raises:
            RbdControlError: if dask.distributed is not installed, the scheduler does not answer or
                has no worker within :data:`PATIENCE`, a worker cannot run this version of
                rbd_control, or the cluster fails during the run.
        """
        with _cluster(self._address) as client:
            suspects: list[int] = []
            for index, outcome in _spread(client, jobs, list(range(len(jobs)))):
                if outcome is None:
                    suspects.append(index)
                else:
                    yield index, outcome
            for suspect in suspects:
                for index, outcome in _spread(client, jobs, [suspect]):
                    yield index, outcome or Outcome.bad("ended every worker that it was given to")


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """Connect to a scheduler whose workers have this version.

    Raises:
        RbdControlError: if there is no such scheduler or worker.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise RbdControlError(
            "--scheduler needs dask.distributed, which is not installed: pip install '.[fleet]' in "
            "a clone of rbd_control"
        ) from error
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RbdControlError(f"no Dask scheduler answers at {address}: {reason(error)}") from error
    with client:
        _refuse_other_workers(client, address)
        yield client


def _refuse_other_workers(client: Any, address: str) -> None:
    """Raise an error if there are no workers, or if they cannot run this version."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise RbdControlError(
            f"the scheduler at {address} has no workers; start some with 'dask worker {address}'"
        ) from error
    try:
        versions = set(client.run(worker_version, on_error="return").values())
    except Exception as error:
        raise RbdControlError(
            f"the workers of {address} cannot run rbd_control: {reason(error)}"
        ) from error
    for version in versions:
        if isinstance(version, ImportError):
            raise RbdControlError(f"rbd_control is not installed on a worker: {reason(version)}")
        if isinstance(version, str) and version != __version__:
            raise RbdControlError(
                f"a worker has rbd_control {version}, not {__version__}; install the same version"
            )


def _spread(
    client: Any, jobs: Sequence[Job], chosen: Sequence[int]
) -> Iterator[tuple[int, Outcome | None]]:
    """Yield the index and outcome of each chosen job; None if it ended too many workers.

    At most one job per thread is submitted at a time, so that a lost worker affects few jobs.
    """
    from distributed import KilledWorker
    from distributed import as_completed as completion

    waiting = deque(chosen)
    running: dict[str, int] = {}
    completed = completion([], loop=client.loop)

    def hand_out() -> None:
        while waiting and len(running) < max(1, sum(client.nthreads().values())):
            index = waiting.popleft()
            key = f"rbd_control-{uuid.uuid4().hex}"
            running[key] = index
            completed.add(client.submit(run_job, jobs[index], key=key, pure=False))

    hand_out()
    while running:
        future = next(completed)
        index = running.pop(future.key)
        if future.status == "finished":
            answer = index, future.result()
        elif future.status == "error" and isinstance(future.exception(), KilledWorker):
            answer = index, None
        else:
            raise RbdControlError(
                f"the Dask cluster failed ({_problem(future)}); run the same command again to go on"
            )
        hand_out()
        yield answer


def _problem(future: Any) -> str:
    if future.status == "error":
        return reason(future.exception())
    return f"a task was {future.status}"
