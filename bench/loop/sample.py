"""``python -m bench.loop.sample``: time of the parts of one sample, in one process without ROS.

A detector and a controller get the joint states of a simulated arm that moves, as in
``contact_aware_controller``: ``judge`` (verdict of the detector), ``update`` (torque) and
``balance`` (energies).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

HOME = (0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0)
FIRST = 1_000
"""Number of samples before the measurement."""

SHARE = 25.0
"""Percentile of the times that counts [%]: other processes interrupt the slower ones."""


def measure(count: int) -> dict[str, float]:
    """Return the time of each part of a sample, and of their sum, over ``count`` [µs]."""
    model = Model.from_urdf(arm7_urdf())
    arm = SimulatedArm(model, SimulationParameters(initial_position=HOME, effort_noise=0.01))
    controller = PassivityController(model, ControllerParameters())
    detector = ContactDetector(model, DetectorParameters())
    first = arm.reading()
    assert first is not None
    controller.start(first.stamp, first.q, first.v, first.stamp)
    times, way = np.zeros((3, FIRST + count)), 0.3
    for k in range(FIRST + count):
        if k % 1000 == 0:
            way = -way
            goal = TrajectoryPoint(np.array(HOME) + way, time_from_start=1.2)
            controller.set_trajectory(model.joint_names, [goal])
        sample = arm.reading()
        assert sample is not None
        begin = time.perf_counter_ns()
        detector.judge(sample.stamp, sample.q, sample.v, sample.tau)
        judged = time.perf_counter_ns()
        command = controller.update(sample.stamp, sample.q, sample.v, sample.stamp, sample.tau)
        updated = time.perf_counter_ns()
        controller.energy.balance(sample.tau)
        times[:, k] = judged - begin, updated - judged, time.perf_counter_ns() - updated
        detector.complete()
        arm.step(command.torque)
    if command.mode != "follow":
        raise RuntimeError(f"the controller is in mode {command.mode}: {command.reason}")
    parts = np.percentile(times[:, FIRST:], SHARE, axis=1) / 1e3
    names = ("judge", "update", "balance")
    found = {name: round(float(part), 1) for name, part in zip(names, parts, strict=True)}
    return found | {
        "sum": round(float(np.percentile(times[:, FIRST:].sum(axis=0), SHARE)) / 1e3, 1)
    }


def main(arguments: Sequence[str]) -> None:
    """Print the median times as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.loop.sample", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, metavar="N", help="samples (5000)")
    print(json.dumps(measure(parser.parse_args(arguments).count)))


if __name__ == "__main__":
    main(sys.argv[1:])
