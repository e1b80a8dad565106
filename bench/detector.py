"""``python -m bench.detector``: time of the contact detector per sample, one by one and in blocks.

The arm that ships with the package moves its seven joints without contact. The benchmark times
every observer, with a friction model and the statistic of the residuals of all joints; the last row
also estimates the wrench at the tool. The table shows the median and the fastest of several runs
[µs per sample].
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.simulation import arm7_urdf

RATE, BLOCK, SINGLE, RUNS = 1000.0, 3000, 1000, 15
"""Sample rate [Hz], samples of a block and of a run sample by sample, and number of runs.

A block is below the size from which several cores are used.
"""
OBSERVERS = ("momentum", "second_order", "kalman")


def main() -> None:
    """Measure all observers and print the table."""
    model = Model.from_urdf(arm7_urdf())
    n = model.nv
    t = np.arange(1, BLOCK + 1)[:, None] / RATE
    w = 0.5 * np.arange(1, n + 1)
    q, v = 0.3 * np.sin(w * t), 0.3 * w * np.cos(w * t)
    tau = inverse_dynamics(model, q, v, -0.3 * w**2 * np.sin(w * t))
    samples = (t[:, 0], q, v, tau + 0.05 * np.random.default_rng(1).normal(size=tau.shape))
    parameters = DetectorParameters(
        friction_model="stribeck", residual_covariance=tuple(np.eye(n).ravel())
    )
    table = Table("observer", "block [µs]", "one by one [µs]", title=f"{n} joints, per sample")
    for observer in OBSERVERS:
        chosen = replace(parameters, observer=observer)

        def in_block(chosen: DetectorParameters = chosen) -> int:
            ContactDetector(model, chosen).update_block(*samples)
            return BLOCK

        def one_by_one(chosen: DetectorParameters = chosen) -> int:
            detector = ContactDetector(model, chosen)
            for sample in zip(*(column[:SINGLE] for column in samples), strict=True):
                detector.update(*sample)
            return SINGLE

        table.add_row(observer, _told(in_block), _told(one_by_one))

    def with_wrench() -> int:
        detector = ContactDetector(model, replace(parameters, tool_frame="tool"))
        for sample in zip(*(column[:SINGLE] for column in samples), strict=True):
            detector.update(*sample)
            detector.tool_wrench()
        return SINGLE

    table.add_row("momentum, with the tool wrench", "", _told(with_wrench))
    Console().print(table)


def _told(run: Callable[[], int]) -> str:
    """Return the median and the shortest time of a sample as text."""
    run()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        count = run()
        times.append(1e6 * (time.perf_counter() - start) / count)
    return f"{np.median(times):.2f} (least {min(times):.2f})"


if __name__ == "__main__":
    main()
