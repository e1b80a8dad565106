"""Processing of hundreds of recordings (a fleet) in parallel, and a study over the results.

:mod:`~rbd_control.fleet.run` distributes the work, :mod:`~rbd_control.fleet.jobs` processes one
recording, and :mod:`~rbd_control.fleet.store` manages the folder with the results. The jobs run in
processes of this machine or on a Dask cluster
(:mod:`~rbd_control.fleet.workers`). :mod:`~rbd_control.fleet.study` computes rates of false
alarms, delays and drifts from the results in the folder. docs/fleet.md describes the commands.
"""

from rbd_control.fleet.jobs import CalibrateJob, ReplayJob, Source
from rbd_control.fleet.run import Entry, FleetRun, run_fleet
from rbd_control.fleet.store import Outcome, Record, Store
from rbd_control.fleet.study import Study, study
from rbd_control.fleet.workers import DaskWorkers, LocalWorkers

__all__ = [
    "CalibrateJob",
    "DaskWorkers",
    "Entry",
    "FleetRun",
    "LocalWorkers",
    "Outcome",
    "Record",
    "ReplayJob",
    "Source",
    "Store",
    "Study",
    "run_fleet",
    "study",
]
