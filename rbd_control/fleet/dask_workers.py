"""Distribution of the jobs of a fleet to the workers of a Dask cluster (extra ``fleet``)."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rbd_control import __version__
from rbd_control.errors import RbdControlError
from rbd_control.files.input_files import reason
from rbd_control.fleet.jobs import Job, run_job, worker_version
from rbd_control.fleet.outcome import Outcome

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
    from distributed import KilledWorker, as_completed

    waiting = deque(chosen)
    running: dict[str, int] = {}
    completed = as_completed([], loop=client.loop)

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
