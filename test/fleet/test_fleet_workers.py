"""Workers of a fleet: each job is answered once, whatever processes die on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fleet_jobs import Deadly, Faulty, Quick, Refused

from rbd_control.fleet.jobs import worker_version
from rbd_control.fleet.store import BAD, DONE, Outcome
from rbd_control.fleet.workers import ATTEMPTS, DaskWorkers, LocalWorkers


def jobs_for(folder: Path) -> list[Any]:
    """Sound jobs, among them one that kills one worker and one that kills every worker."""
    jobs: list[Any] = [Quick(folder / f"sound_{k}") for k in range(6)]
    jobs.insert(1, Deadly(folder / "once", 1))
    jobs.insert(3, Deadly(folder / "always", 99))
    jobs.insert(4, Refused(folder / "refused"))
    jobs.insert(5, Faulty(folder / "faulty"))
    return jobs


def check(jobs: Sequence[Any], answers: Sequence[tuple[int, Outcome]]) -> dict[str, Outcome]:
    """Check that every job has one result, and that only damaged recordings have none."""
    assert sorted(index for index, _ in answers) == list(range(len(jobs)))
    outcomes = {jobs[index].recording.name: outcome for index, outcome in answers}
    for name, outcome in outcomes.items():
        if name not in ("always", "refused", "faulty"):
            assert outcome.status == DONE, (name, outcome)
            assert outcome.result is not None
            assert outcome.result["name"] == name
    assert outcomes["refused"] == Outcome.bad("inside.mcap: holds nothing")
    assert outcomes["faulty"].status == BAD
    assert "ZeroDivisionError" in outcomes["faulty"].reason
    assert outcomes["always"].status == BAD
    return outcomes


def test_local_workers_that_die_lose_nothing_else(tmp_path: Path) -> None:
    jobs = jobs_for(tmp_path)
    outcomes = check(jobs, list(LocalWorkers(2, worker_version).run(jobs)))
    assert outcomes["always"].reason == "ended its worker process 3 times"
    assert len(list(tmp_path.glob("always.killed*"))) == ATTEMPTS


@pytest.mark.timeout(90)
def test_dask_workers_that_die_lose_nothing_else(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    jobs = jobs_for(tmp_path)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        answers = list(DaskWorkers(cluster.scheduler_address).run(jobs))
    outcomes = check(jobs, answers)
    assert outcomes["always"].reason == "ended every worker that it was given to"
