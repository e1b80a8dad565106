"""Tables of the speed benchmark for the terminal and for Markdown files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.speed.contest import Contest, Timing
from bench.speed.ew21 import LARGE, PUBLISHED, crossing, curve, of_family, slope, terms_of_sum
from bench.speed.measure import Spread
from bench.speed.mechanisms import FAMILIES, PUBLISHED_SIZE
from bench.speed.quantities import Column, Quantity
from bench.speed.targets import Outcome


@dataclass(frozen=True)
class Sheet:
    """A table as text: header, sections of rows of cells, and notes below the table.

    The first cell of a row is its name. A row with empty other cells is the name of a section.
    """

    title: str
    header: Sequence[str]
    sections: Sequence[Sequence[Sequence[str]]]
    notes: str = ""

    def rich(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, caption=self.notes or None, caption_justify="left")
        for i, heading in enumerate(self.header):
            table.add_column(heading, justify="right" if i else "left", no_wrap=True)
        for section in self.sections:
            for row in section:
                table.add_row(*row)
            table.add_section()
        return table

    def markdown(self) -> str:
        """Return the table as Markdown, with its title as a heading of level 2."""
        header = [" ".join(heading.split()) for heading in self.header]
        rule = ["---"] + ["---:"] * (len(header) - 1)
        rows = [header, rule, *(_cells(row) for section in self.sections for row in section)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([f"## {self.title}", "", *lines, "", self.notes, ""])


def _cells(row: Sequence[str]) -> list[str]:
    """Return a row in Markdown; the name of a section fills its row and is bold."""
    name, *rest = (cell.strip() for cell in row)
    return [name if any(rest) else f"**{name}**", *rest]


@dataclass(frozen=True)
class Comparison:
    """Layout of a table of times: columns, ratios of columns, and notes.

    Attributes:
        columns: the columns with times.
        ratios: heading, numerator and denominator of each column with ratios.
        notes: explanation below the table.
    """

    columns: tuple[Column, ...]
    ratios: tuple[tuple[str, Column, Column], ...]
    notes: str

    def sheet(self, timings: Sequence[Timing], title: str, *, explained: bool = True) -> Sheet:
        """Return the table with a section for each mechanism.

        Args:
            timings: the measurements.
            title: title of the table.
            explained: whether the table has the notes.
        """
        headings = [column.value for column in self.columns]
        header = ["", *headings, *(heading for heading, *_ in self.ratios)]
        sections: dict[str, list[list[str]]] = {}
        for timing in timings:
            name = timing.mechanism.label
            rows = sections.setdefault(name, [[name, *[""] * (len(header) - 1)]])
            times = [_time(timing.microseconds(column)) for column in self.columns]
            ratios = [_ratio(timing.ratio(*pair)) for _, *pair in self.ratios]
            rows.append([f"  {timing.quantity.value}", *times, *ratios])
        return Sheet(title, header, list(sections.values()), self.notes if explained else "")


LIBRARIES = Comparison(
    columns=(
        Column.PLAIN,
        Column.BATCH,
        Column.FROZEN,
        Column.LOOP,
        Column.FROZEN_BATCH,
        Column.LIMIT,
        Column.PINOCCHIO,
        Column.PINOCCHIO_CPP,
        Column.MUJOCO,
    ),
    ratios=(
        ("ours/Pinocchio\nPython", Column.PLAIN, Column.PINOCCHIO),
        ("frozen/Pinocchio\nPython", Column.FROZEN, Column.PINOCCHIO),
        ("frozen/Pinocchio\nloop, C++", Column.LOOP, Column.PINOCCHIO_CPP),
        ("batch/Pinocchio\none core, C++", Column.BATCH, Column.PINOCCHIO_CPP),
        ("frozen batch/\nours batch", Column.FROZEN_BATCH, Column.BATCH),
        ("limit/\nfrozen batch", Column.LIMIT, Column.FROZEN_BATCH),
    ),
    notes=(
        "Times are medians in µs of one call, or of one state in a batch or loop. Ratios are "
        "medians of the ratios within one round, with quartiles. ours: the public functions, "
        "checks included. frozen: freeze(model), from Python or in a loop compiled with numba. "
        "limit: the additions, multiplications and divisions of the frozen function, with products "
        "fused into sums, as independent multiply-adds in vector lanes; no sines, loads, stores. "
        "Pinocchio, same outputs: M, C and g by three calls; Γ by as many Coriolis matrices as "
        "there are velocities; the Slotine-Li torque by M, C, g and two products. Rotors: exact "
        "by ours, n² I_R on the diagonal of M by the others. Smaller is faster."
    ),
)
"""Table of our functions beside Pinocchio and MuJoCo."""

RIVALS = Comparison(
    columns=(
        Column.FROZEN,
        Column.DRAKE,
        Column.FRAX,
        Column.LOOP,
        Column.EXPORTED,
        Column.CASADI,
        Column.BATCH,
        Column.FRAX_BATCH,
    ),
    ratios=(
        ("Drake/frozen\nPython", Column.DRAKE, Column.FROZEN),
        ("frax/frozen\nPython", Column.FRAX, Column.FROZEN),
        ("CasADi's C/\nfrozen loop", Column.CASADI, Column.LOOP),
        ("CasADi's C/\nexported C", Column.CASADI, Column.EXPORTED),
        ("frozen loop/\nexported C", Column.LOOP, Column.EXPORTED),
        ("frax/ours\nbatch", Column.FRAX_BATCH, Column.BATCH),
    ),
    notes=(
        "Times as above. exported C and CasADi's C, which is generated from Pinocchio's "
        "algorithms, are compiled with -O3 -march=native and called in a loop in C; of M, C, Cᵀv, "
        "g CasADi's lacks Cᵀv. Drake and frax have neither C nor Cᵀv. frax: JAX on all cores, for "
        "one state and for 512 in one call. Ratios are the others' times divided by ours: above "
        "one, ours are faster."
    ),
)
"""Table of generated code, Drake and frax beside our functions.

The ratios are the inverse of the ratios in :data:`LIBRARIES`, because some libraries are a hundred
times as slow, and two decimals below one would not suffice.
"""


def times(timings: Sequence[Timing], title: str, *, explained: bool = True) -> Sheet:
    """Return the table :data:`LIBRARIES` of some measurements, with a section for each mechanism.

    Args:
        timings: the measurements.
        title: title of the table.
        explained: whether the table has the notes.
    """
    return LIBRARIES.sheet(timings, title, explained=explained)


def rivals(timings: Sequence[Timing]) -> Sheet:
    """Return the table :data:`RIVALS` of the measurements with at least one of these libraries."""
    others = {Column.EXPORTED, Column.CASADI, Column.DRAKE, Column.FRAX}
    chosen = [timing for timing in timings if others & set(timing.seconds)]
    return RIVALS.sheet(chosen, "Generated code, Drake and frax")


def growth(timings: Sequence[Timing]) -> Sheet:
    """Return a table of EW21's Table 1 beside our times, and of their growth with the joints."""
    header = [
        "",
        *(f"EW21\n{PUBLISHED_SIZE} joints", f"ours\n{PUBLISHED_SIZE} joints"),
        *(f"Pinocchio C++\n{PUBLISHED_SIZE} joints", "slope\nours", "slope\nPinocchio"),
        "slope\nterms",
    ]
    sections = []
    for quantity, name in ((Quantity.TERMS, "C"), (Quantity.CHRISTOFFEL, "Γ")):
        rows = []
        for family in FAMILIES:
            members = of_family(timings, family, quantity)
            ours = curve(members, Column.LOOP)
            theirs = curve(members, Column.PINOCCHIO_CPP)
            terms = {
                n: float(terms_of_sum(timing.mechanism, quantity)) for n, timing in members.items()
            }
            at_published = [_number(points.get(PUBLISHED_SIZE)) for points in (ours, theirs)]
            slopes = [_number(slope(points)) for points in (ours, theirs, terms)]
            rows.append(
                [f"{name}, {family}", f"{PUBLISHED[family][quantity]:g}", *at_published, *slopes]
            )
        sections.append(rows)
    notes = (
        "Times in µs. EW21: its Table 1, C++ on an Intel i7 at 3.2 GHz. Ours: frozen, in a "
        "compiled loop. With C come M, Cᵀv and g, from Pinocchio M and g. Slopes: the exponent of "
        f"the number of joints, fitted from {LARGE} joints on. Terms: that of the number "
        "of pairs (C) or triples (Γ) of related bodies, which are the sums O(N d) and O(N d²). "
        "Clearing what is zero is O(N²) and O(N³) in any tree."
    )
    return Sheet("EW21: times with 20 joints, and how they grow", header, sections, notes)


def gdahj(timings: Sequence[Timing]) -> Sheet:
    """Return a table of times of two algorithms for M of serial chains: GDAHJ (S18) and CRBA.

    Its notes give the number of joints from which GDAHJ is faster.
    """
    by_crba = of_family(timings, "chain", Quantity.MASS)
    by_gdahj = of_family(timings, "chain", Quantity.GDAHJ)
    curves = {
        "GDAHJ, ours": curve(by_gdahj, Column.BATCH),
        "CRBA, ours": curve(by_crba, Column.BATCH),
        "CRBA, Pinocchio C++": curve(by_crba, Column.PINOCCHIO_CPP),
    }
    rows = [[name, *(_number(points.get(n)) for n in by_gdahj)] for name, points in curves.items()]
    mine = curves["GDAHJ, ours"]
    crossings = []
    for name in ("CRBA, ours", "CRBA, Pinocchio C++"):
        other = curves[name]
        ratios = [mine[n] / other[n] if n in other else None for n in mine]
        rows.append([f"GDAHJ / {name}", *map(_number, ratios)])
        found = crossing(mine, other)
        where = f"from {found:.0f} joints on" if found else "not with the longest chain"
        crossings.append(f"faster than {name}: {where}")
    notes = (
        f"Times in µs, ours in a batch. GDAHJ is {'; '.join(crossings)}. S18 says from 13 on, by "
        "counted operations, against a CRBA in link frames, as is Pinocchio's; ours is in base "
        "axes, with the n² of GDAHJ."
    )
    return Sheet(
        "M of serial chains: GDAHJ and CRBA", ["joints", *map(str, by_gdahj)], [rows], notes
    )


def targets(outcomes: Sequence[Outcome]) -> Sheet:
    """Return the table of the targets with the measured ratios."""
    rows = [
        [
            outcome.text,
            _ratio(outcome.measured),
            f"{'>=' if outcome.at_least else '<='} {_number(outcome.limit)}",
            "met" if outcome.met else "missed",
        ]
        for outcome in outcomes
    ]
    return Sheet("Targets", ["", "measured", "wanted", ""], [rows])


def remarks(contests: Sequence[Contest], absent: Mapping[Column, str], disagreement: float) -> str:
    """Return lines on the agreement of all results and on libraries that did not take part.

    Args:
        contests: the contests of all mechanisms.
        absent: reason why a library does not take part, by column.
        disagreement: largest difference of a result from ours, relative to our largest entry.
    """
    lines = [f"All results agree to {disagreement:.0e} of their largest entry."]
    lines += [
        f"{' '.join(column.value.split())} took no part: {reason}."
        for column, reason in absent.items()
    ]
    lines += [
        f"MuJoCo does not take {contest.mechanism.name}: {contest.without_mujoco}."
        for contest in contests
        if contest.without_mujoco
    ]
    return "\n".join(lines)


def _time(value: Spread | None) -> str:
    return _number(value.median if value else None)


def _ratio(value: Spread | None) -> str:
    if value is None:
        return "-"
    return f"{_number(value.median)} ({_number(value.low)}-{_number(value.high)})"


def _number(value: float | None) -> str:
    """Return a number with about three digits."""
    if value is None or math.isnan(value):
        return "-"
    if value >= 1e5:
        return f"{value:.2e}"
    return f"{value:.{2 if value < 10.0 else 1 if value < 100.0 else 0}f}"
