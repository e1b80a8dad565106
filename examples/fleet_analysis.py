"""Batch analysis of a fleet: two arms, three days each, of which one arm has become heavy to move.

The recordings are made here as CSV files, without contact; the friction of the arm "right" grows by
a quarter a day. A worker process replays each through the detector of the node, and `study` sums
them up. Prints the false alarms by arm and day. On the command line, `rbd-control replay bags/
--urdf arm.yaml --fleet results` and `rbd-control fleet-report results` do the same.
"""

import tempfile
from pathlib import Path

import numpy as np

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.fleet import Entry, LocalWorkers, ReplayJob, Source, Store, run_fleet, study
from rbd_control.simulation import arm7_urdf

ARM = """/**: {ros__parameters: {urdf: arm7, friction_model: coulomb_viscous,
  friction_coulomb: [3.0], friction_viscous: [1.0], friction_velocity_scale: [0.05]}}
contact_detector: {ros__parameters: {contact_threshold: [1.2], follow_friction: false}}
"""
DAY, MIDNIGHT = 86400.0, 1.8e9  # seconds; a day in 2027


def record(path, start, factor):
    """Write 10 s of motion at 100 Hz with the friction of the file times a factor."""
    model, random = Model.from_urdf(arm7_urdf()), np.random.default_rng(int(start))
    t, w = np.arange(1000)[:, None] / 100.0, random.uniform(0.8, 1.6, 7)
    q = 0.4 * np.sin(w * t) + [0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0]
    v, a = 0.4 * w * np.cos(w * t), -0.4 * w**2 * np.sin(w * t)
    tau = inverse_dynamics(model, q, v, a) + factor * (3.0 * np.tanh(v / 0.05) + v)
    kinds = ("position", "velocity", "effort")
    head = ["time", *(f"{kind}/{joint}" for kind in kinds for joint in model.joint_names)]
    table = np.hstack([start + t, q, v, tau + random.normal(0.0, 0.1, q.shape)])
    np.savetxt(path, table, fmt="%.6f", delimiter=",", header=",".join(head), comments="")


if __name__ == "__main__":  # the worker processes import this file
    with tempfile.TemporaryDirectory() as name:
        folder, entries = Path(name), []
        (folder / "arm.yaml").write_text(ARM, encoding="utf-8")
        for arm in ("left", "right"):
            for day in range(3):
                path = folder / f"{arm}_{day}.csv"
                record(path, MIDNIGHT + DAY * day, 1.0 + 0.25 * day * (arm == "right"))
                job = ReplayJob(Source(path, str(folder / "arm.yaml")), labels=())
                entries.append(Entry(job, arm, free=True))
        run = run_fleet(entries, Store(folder, "replay"), LocalWorkers(1))
        print("recordings without a verdict:", len(run.unusable))
        for row in study(run.records).days:
            print(f"{row['arm']:5} {row['day']}: false alarms: {row['events']}")
