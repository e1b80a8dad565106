"""``python -m bench.lanes``: speed of batches in vector lanes, and one state after another.

Each function of the dynamics has two kernels for a batch: one computes several states at once in
the lanes of a vector register, the other one state after another. Both compute the same 512 states
of a Panda in alternate calls, on one core. Times are
the smallest of all rounds, ratios the medians of the ratios within a round. The table goes to
``lanes.md`` in the folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from bench.speed.machine import machine
from bench.speed.measure import measure
from bench.speed.mechanisms import Mechanism, robots
from bench.speed.sheets import Sheet
from rbd_control import dynamics
from rbd_control.dynamics.batches import STATES_FOR_COMPILING, Kernels

ROUNDS = 151

FUNCTIONS: dict[str, int] = {
    "dynamics_terms": 1,
    "mass_matrix": 0,
    "momentum_terms": 1,
    "gravity_torque": 0,
    "inverse_dynamics": 2,
    "forward_dynamics": 2,
    "slotine_li_torque": 3,
    "christoffel_symbols": 0,
    "regressor": 3,
}
"""Functions with a kernel in lanes, and the number of vectors that each takes in addition to q."""


def main(arguments: Sequence[str]) -> None:
    """Measure all functions, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.lanes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    if given.rounds < 1:
        parser.error(f"--rounds is {given.rounds}; give at least 1")
    console = Console(width=120, highlight=False)
    panda = robots()[0]
    sheet = table([row(panda, name, given.rounds) for name in FUNCTIONS])
    console.print(sheet.rich())
    given.report.mkdir(parents=True, exist_ok=True)
    facts = "\n".join(f"- {name}: {value}" for name, value in machine().items())
    path = given.report / "lanes.md"
    path.write_text(f"# Batches in vector lanes\n\n{facts}\n\n{sheet.markdown()}", encoding="utf-8")
    console.print(f"written to {path}")


def table(rows: Sequence[Sequence[str]]) -> Sheet:
    """Return the table of docs/speed.md from the rows of :func:`row`."""
    header = ["", "one by one [µs]", "in lanes [µs]", "ratio", "million states/s"]
    return Sheet("docs/speed.md: batches in vector lanes", header, [rows])


def row(mechanism: Mechanism, name: str, rounds: int) -> list[str]:
    """Measure one function and return its row of the table as texts.

    Args:
        mechanism: the robot, with its model and states.
        name: name of the function, a key of :data:`FUNCTIONS`.
        rounds: number of measurements of each kernel.

    Returns:
        Name, time of one state one by one and in lanes [µs], ratio of both, and million states per
        second in lanes.
    """
    function = getattr(dynamics, name)
    states = mechanism.states
    inputs = (states.q, states.v, states.x, states.y)[: 1 + FUNCTIONS[name]]
    count = len(states.q)
    _compile_lanes(function, mechanism, inputs)

    def one_by_one(calls: int) -> float:
        with without_lanes(function):
            return in_lanes(calls)

    def in_lanes(calls: int) -> float:
        return timed(function, mechanism, inputs, calls)

    seconds = measure({"states": one_by_one, "lanes": in_lanes}, rounds)
    times = {key: 1e6 * float(values.min()) / count for key, values in seconds.items()}
    ratio = float(np.median(seconds["states"] / seconds["lanes"]))
    cells = [f"{times['states']:.3f}", f"{times['lanes']:.3f}"]
    return [f"`{name}`", *cells, f"{ratio:.1f}", f"{1.0 / times['lanes']:.1f}"]


def timed(
    function: Callable[..., Any], mechanism: Mechanism, inputs: Sequence[np.ndarray], calls: int
) -> float:
    """Return the duration of several calls of a function with all states in one batch [s].

    Args:
        function: function of :mod:`rbd_control.dynamics` that takes a model and batches.
        mechanism: the robot.
        inputs: q, v and further vectors of the batch, (k, n) each.
        calls: number of calls, which write their results to the same arrays.
    """
    out = function(mechanism.model, *inputs)
    start = perf_counter()
    for _ in range(calls):
        function(mechanism.model, *inputs, out=out)
    return perf_counter() - start


@contextmanager
def without_lanes(function: Callable[..., Any]) -> Iterator[None]:
    """Let a function compute its batches one state after another inside the ``with`` block.

    Raises:
        ValueError: if the function has no kernel in lanes.
    """
    module = vars(sys.modules[function.__module__])
    kernels = [each for each in module.values() if isinstance(each, Kernels) and each.lanes]
    if not kernels:
        raise ValueError(f"{function.__name__} has no kernel in vector lanes")
    lanes = [each.lanes for each in kernels]
    for each in kernels:
        each.lanes = None
    try:
        yield
    finally:
        for each, kernel in zip(kernels, lanes, strict=True):
            each.lanes = kernel


def _compile_lanes(
    function: Callable[..., Any], mechanism: Mechanism, inputs: Sequence[np.ndarray]
) -> None:
    """Call ``function`` with as many states as make it compile its kernel in lanes."""
    repeats = -(-STATES_FOR_COMPILING // len(inputs[0]))
    function(mechanism.model, *(np.tile(array, (repeats, 1)) for array in inputs))


if __name__ == "__main__":
    main(sys.argv[1:])
