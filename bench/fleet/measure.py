"""Timed runs of ``rbd-control replay --fleet`` over a fleet of recordings, and lost recordings."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.fleet.recordings import Fleet

KILLED_AFTER = 0.2
"""Share of the recordings after which a worker is killed."""


@dataclass(frozen=True)
class Run:
    """Measurements of one run over a fleet.

    Attributes:
        name: number and kind of the workers.
        seconds: time from start to end of the command [s].
        cpu: processor time of the command and of all workers, their start included [s].
        hours: length of the recordings that have a result [h].
        samples: number of samples in these recordings.
        results: result of each recording by path; None for a bad recording.
        killed: number of workers that were killed.
    """

    name: str
    seconds: float
    cpu: float
    hours: float
    samples: int
    results: dict[str, Any]
    killed: int

    @property
    def hours_per_minute(self) -> float:
        """Hours of joint states that are processed per minute of elapsed time [h/min]."""
        return 60.0 * self.hours / self.seconds

    def problems(self, fleet: Fleet, first: Run) -> list[str]:
        """Return descriptions of lost recordings and of differences from the first run.

        A recording is lost if it is not damaged and has no result. A damaged recording with a
        result is a problem as well.
        """
        damaged = {str(path) for path in fleet.damaged}
        bad = {path for path, result in self.results.items() if result is None}
        wrong = [f"{self.name}: {path} has no result" for path in sorted(bad - damaged)]
        wrong += [f"{self.name}: {path} is damaged and has one" for path in sorted(damaged - bad)]
        if len(self.results) != fleet.count:
            wrong.append(f"{self.name}: {len(self.results)} of {fleet.count} recordings")
        if self.results != first.results:
            wrong.append(f"{self.name}: results differ from those of {first.name}")
        return wrong


def run(
    fleet: Fleet, name: str, options: Sequence[str], kill: Callable[[], int] | None = None
) -> Run:
    """Replay a fleet with results in a new folder, and measure the command.

    Args:
        fleet: the recordings.
        name: name of the run, and of the folder with the results.
        options: options of the command that select the workers.
        kill: kills a worker and returns how many it killed; called once, when
            :data:`KILLED_AFTER` of the recordings are done.

    Raises:
        RuntimeError: if the command fails; the message contains its output.
    """
    results = fleet.folder / f"results_{name.replace(' ', '_')}"
    command = [sys.executable, "-m", "rbd_control.cli.main", "replay", str(fleet.bags)]
    command += ["--fleet", str(results), "--sheet", str(fleet.sheet), *options]
    killed = 0
    begin, used = time.monotonic(), _cpu()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while kill is not None and process.poll() is None:
            if len(list((results / "replay").glob("*.json"))) >= KILLED_AFTER * fleet.count:
                killed = kill()
                break
            time.sleep(0.02)
        said, _ = process.communicate()
    seconds = time.monotonic() - begin
    if process.returncode not in (0, 1):
        raise RuntimeError(f"{name}: exit code {process.returncode}\n{said}")
    records = [json.loads(path.read_bytes()) for path in (results / "replay").glob("*.json")]
    done = [record["result"] for record in records if record["result"]]
    return Run(
        name,
        seconds,
        _cpu() - used,
        sum(result["duration"] for result in done) / 3600.0,
        sum(result["samples"] for result in done),
        {record["recording"]: record["result"] for record in records},
        killed,
    )


def run_on_dask(fleet: Fleet, workers: int) -> Run:
    """Replay a fleet on a local Dask cluster, and kill one worker process during the run.

    Args:
        fleet: the recordings.
        workers: number of worker processes.

    Raises:
        RuntimeError: if the command fails; the message contains its output.
    """
    from distributed import Client, LocalCluster

    used = _cpu()
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        pids = list(client.run(os.getpid).values())

        def kill() -> int:
            os.kill(pids[0], signal.SIGKILL)
            return 1

        name = f"Dask, {workers} workers"
        done = run(fleet, name, ("--scheduler", cluster.scheduler_address), kill)
    # The workers are counted once they have ended.
    return replace(done, cpu=_cpu() - used)


def _cpu() -> float:
    """Return the processor time of all processes that were started here and have ended [s]."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
