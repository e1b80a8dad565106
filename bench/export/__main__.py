"""``python -m bench.export [mechanism ...]``: compare the speed of exported C.

Exported C is compared with the frozen functions (compiled by numba for one robot) in a loop
compiled by numba and, if casadi is installed, with the C code that CasADi generates from
Pinocchio's algorithms. All C is compiled with -O3 -march=native. First every C compiler of this
machine compiles the exported code with all warnings. Results go to ``export.md`` and
``export.json`` in the folder that ``--report`` names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console

from bench.export import ours, with_casadi
from bench.export.compilers import WARNINGS, compilers
from bench.export.library import NAMES, Library, by_processor
from bench.speed.machine import machine
from bench.speed.measure import Spread, measure, spread
from bench.speed.mechanisms import Mechanism, all_mechanisms
from bench.speed.ours import freeze_all, frozen
from bench.speed.quantities import Column, Contestant, Quantity
from bench.speed.sheets import Sheet
from bench.speed.with_pinocchio import Twin
from rbd_control.export import CFiles

WIDTH = 150
EXPORTED, FROZEN, CASADI = "exported C", "frozen, loop", "Pinocchio, CasADi's C"
ROBOTS = ("Panda", "UR5")
LARGEST_FOR_CASADI = 12
"""Degrees of freedom above which CasADi's code is left out.

CasADi writes each function as one piece; a compiler takes more than twice as long for twice as many
statements.
"""

AGREEMENT = {EXPORTED: 1e-12, CASADI: 1e-6}
"""Largest accepted difference from the frozen functions, relative to the largest entry."""


@dataclass(frozen=True)
class Row:
    """Results for one quantity of one robot; a contestant is one of the compared codes.

    Attributes:
        mechanism: name of the robot.
        quantity: name of the quantity.
        operations: number of operations of the exported function.
        times: time of one state [µs], by contestant.
        ratios: time of the exported function divided by the time of each other contestant in the
            same round, by this contestant.
    """

    mechanism: str
    quantity: str
    operations: int
    times: dict[str, Spread]
    ratios: dict[str, Spread]


def main(arguments: Sequence[str]) -> None:
    """Export, compile, compare, time, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.export", description=__doc__)
    parser.add_argument("mechanisms", nargs="*", metavar="mechanism", help="only these")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    given = parser.parse_args(arguments)
    every = {mechanism.name: mechanism for mechanism in all_mechanisms()}
    unknown = sorted(set(given.mechanisms) - set(every))
    if unknown:
        sys.exit(f"no mechanism {', '.join(unknown)}; mechanisms are {', '.join(every)}")
    console = Console(width=WIDTH, highlight=False)
    generator = with_casadi.Generator()
    remarks = [f"without CasADi: {generator.problem}"] if generator.problem else []
    rows = []
    for name in given.mechanisms or ROBOTS:
        rows += _rows(every[name], generator, remarks)
    write(rows, remarks, given.report, console)


def _rows(mechanism: Mechanism, generator: with_casadi.Generator, remarks: list[str]) -> list[Row]:
    files = ours.exported(mechanism)
    remarks.append(accepted(mechanism.name, files))
    compiled = ours.library(mechanism, files)
    remarks.append(_size(mechanism, EXPORTED, compiled))
    contestants = {
        quantity: {EXPORTED: ours.contestant(compiled, mechanism, quantity)} for quantity in NAMES
    }
    for quantity, functions in freeze_all(mechanism).items():
        if quantity in contestants:
            looped = frozen(mechanism, quantity, functions)[Column.LOOP]
            contestants[quantity][FROZEN] = replace(looped, run=by_processor(looped.run))
    if mechanism.model.nv > LARGEST_FOR_CASADI:
        remarks.append(f"{mechanism.name}, {CASADI}: left out, too large to compile")
    elif not generator.problem:
        twin = Twin(mechanism)
        rival = with_casadi.library(generator.source(twin), twin)
        remarks.append(_size(mechanism, CASADI, rival))
        for quantity in with_casadi.QUANTITIES:
            contestants[quantity][CASADI] = with_casadi.contestant(rival, twin, quantity)
    return [
        row(mechanism.name, quantity, files.operations[f"{ours.PREFIX}_{NAMES[quantity]}"], each)
        for quantity, each in contestants.items()
    ]


def accepted(name: str, files: CFiles) -> str:
    """Compile exported code with all compilers of this machine; return a line with their versions.

    Args:
        name: name of the robot, for the line.
        files: the exported code.

    Raises:
        RuntimeError: if a compiler warns.
    """
    versions = []
    with TemporaryDirectory() as folder:
        source = files.write(Path(folder) / f"{ours.PREFIX}.h")
        for compiler in compilers():
            complaint = compiler.complaint(source, "-O1")
            if complaint:
                raise RuntimeError(f"{name}: {compiler.name} warns of exported C:\n{complaint}")
            versions.append(compiler.version())
    return f"{name}: no warning with {' '.join(WARNINGS)} from {', '.join(versions)}"


def row(name: str, quantity: Quantity, operations: int, contestants: dict[str, Contestant]) -> Row:
    """Compare the results of all contestants, and time them.

    Args:
        name: name of the robot.
        quantity: the quantity that all contestants compute.
        operations: number of operations of the exported function.
        contestants: the contestants by name.

    Raises:
        RuntimeError: if results differ from the frozen functions by more than :data:`AGREEMENT`.
    """
    reference = contestants[FROZEN].result()
    for who, limit in AGREEMENT.items():
        if who in contestants:
            for mine, theirs in zip(reference, contestants[who].result(), strict=True):
                error = float(np.abs(mine - theirs).max() / np.abs(mine).max())
                if not error < limit:
                    raise RuntimeError(f"{name}, {quantity.value}: {who} is off by {error:.1e}")
    seconds = measure({who: contestant.run for who, contestant in contestants.items()})
    return Row(
        name,
        quantity.value,
        operations,
        {who: spread(1e6 * s) for who, s in seconds.items()},
        {who: spread(seconds[EXPORTED] / s) for who, s in seconds.items() if who != EXPORTED},
    )


def _size(mechanism: Mechanism, who: str, library: Library) -> str:
    compiling = f", compiled in {library.seconds:.0f} s" if library.seconds else ""
    return (
        f"{mechanism.name}, {who}: source {library.source_bytes / 1e3:.0f} kB, machine code "
        f"{library.path.stat().st_size / 1e3:.0f} kB{compiling}"
    )


def sheet(rows: Sequence[Row]) -> Sheet:
    """Return the table of times and ratios, with a section for each robot."""
    rivals = (FROZEN, CASADI)
    header = ["", "operations", EXPORTED, *rivals, *(f"exported / {rival}" for rival in rivals)]
    sections: dict[str, list[list[str]]] = {}
    for each in rows:
        section = sections.setdefault(each.mechanism, [[each.mechanism, *[""] * 6]])
        times = [_shown(each.times.get(who), 3) for who in (EXPORTED, *rivals)]
        ratios = [_shown(each.ratios.get(who), 2) for who in rivals]
        section.append([f"  {each.quantity}", str(each.operations), *times, *ratios])
    notes = (
        "Times are medians in µs of processor time for one state in a loop; ratios are medians "
        "within one round. C is compiled with -O3 -march=native. Of M, C, Cᵀv, g CasADi's code "
        "lacks Cᵀv."
    )
    return Sheet("Exported C", header, list(sections.values()), notes)


def _shown(value: Spread | None, digits: int) -> str:
    return f"{value.median:.{digits}f}" if value else "-"


def write(rows: Sequence[Row], remarks: Sequence[str], folder: Path, console: Console) -> None:
    """Print the table and ``remarks``; write both and all numbers to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    this, table = machine(), sheet(rows)
    on = [f"{name}: {value}" for name, value in this.items()]
    console.print(table.rich(), *on, *remarks, sep="\n")
    facts = "\n".join(f"- {line}" for line in (*on, *remarks))
    text = f"# Exported C\n\n{facts}\n\n{table.markdown()}"
    (folder / "export.md").write_text(text, encoding="utf-8")
    numbers = {
        "machine": this,
        "remarks": list(remarks),
        "rows": [
            {
                "mechanism": each.mechanism,
                "quantity": each.quantity,
                "operations": each.operations,
                "microseconds": {who: vars(value) for who, value in each.times.items()},
                "ratios": {who: vars(value) for who, value in each.ratios.items()},
            }
            for each in rows
        ],
    }
    (folder / "export.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {folder}: export.md, export.json")


if __name__ == "__main__":
    main(sys.argv[1:])
