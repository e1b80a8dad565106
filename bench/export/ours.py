"""Exported C code of a robot, compiled as a contestant of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

from bench.export.library import NAMES, Library, loop, shown, sizes, state
from bench.speed.mechanisms import Mechanism
from bench.speed.quantities import Contestant, Quantity
from rbd_control.export import CFiles, export_c

PREFIX = "ours"


def exported(mechanism: Mechanism) -> CFiles:
    """Export the functions of :data:`~bench.export.library.NAMES` for a robot, and return the C."""
    return export_c(mechanism.model, prefix=PREFIX, functions=tuple(NAMES.values()))


def library(mechanism: Mechanism, files: CFiles) -> Library:
    """Compile exported code with a loop around each function; reuse an existing library."""
    n, nq = mechanism.model.nv, mechanism.model.nq
    source = files.source.replace(f'#include "{PREFIX}.h"', files.header)
    loops = []
    for quantity, name in NAMES.items():
        given = state(len(mechanism.states.inputs(quantity)), nq, n)
        first, results = 0, []
        for size in sizes(quantity, n):
            results.append(f"out + {first}")
            first += size
        loops.append(loop(name, f"{PREFIX}_{name}({', '.join([*given, *results])})"))
    return Library.of(f"exported-{_plain(mechanism.name)}", source, *loops)


def contestant(
    compiled: Library,
    mechanism: Mechanism,
    quantity: Quantity,
    clock: Callable[[], float] = thread_time,
) -> Contestant:
    """Return the loop of one quantity as a contestant.

    Args:
        compiled: result of :func:`library`.
        mechanism: the robot.
        quantity: the quantity, a key of :data:`~bench.export.library.NAMES`.
        clock: returns the time that is measured [s].
    """
    return compiled.contestant(
        quantity, mechanism.states, lambda values: shown(quantity, values), clock=clock
    )


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_")
