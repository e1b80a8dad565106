"""Tables of README.md and docs/speed.md from the results of ``make bench``, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.speed.contest import Timing
from bench.speed.measure import Spread
from bench.speed.quantities import Column, Quantity
from bench.speed.sheets import Sheet

WORDS = {
    Quantity.TERMS: "M, C, Cᵀv and g",
    Quantity.CHRISTOFFEL: "all Christoffel symbols",
    Quantity.SLOTINE_LI: "Slotine-Li torque",
    Quantity.INVERSE: "inverse dynamics",
    Quantity.FORWARD: "forward dynamics",
}

README_ROWS = (*(("Panda", quantity) for quantity in WORDS), ("Talos", Quantity.TERMS))
"""Mechanisms and quantities of the table in README.md."""

README_COLUMNS: tuple[tuple[str, Column, Column | None], ...] = (
    ("plain call", Column.PLAIN, None),
    ("frozen, from Python", Column.FROZEN, Column.PINOCCHIO),
    ("Pinocchio, from Python", Column.PINOCCHIO, None),
    ("frozen, in a compiled loop", Column.LOOP, Column.PINOCCHIO_CPP),
    ("Pinocchio, C++", Column.PINOCCHIO_CPP, None),
)
"""Heading, measured column, and the column whose ratio stands in brackets."""

RATIO_ROWS = (Quantity.TERMS, Quantity.CHRISTOFFEL, Quantity.INVERSE, Quantity.FORWARD)

RATIO_COLUMNS = (
    ("batch / Pinocchio C++, one core", Column.BATCH, Column.PINOCCHIO_CPP),
    ("plain / Pinocchio, Python", Column.PLAIN, Column.PINOCCHIO),
    ("frozen loop / Pinocchio C++", Column.LOOP, Column.PINOCCHIO_CPP),
)
"""Heading and the two columns of each ratio in docs/speed.md."""


@dataclass(frozen=True)
class _Measured:
    """The timings of one run, by mechanism and quantity."""

    timings: dict[tuple[str, Quantity], Timing]

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> _Measured:
        return cls({(timing.mechanism.name, timing.quantity): timing for timing in timings})

    def time(self, mechanism: str, quantity: Quantity, column: Column) -> str:
        """Return a median [µs], ``-`` if it was not measured."""
        timing = self.timings.get((mechanism, quantity))
        spread = timing and timing.microseconds(column)
        return _number(spread.median) if spread else "-"

    def ratio(
        self, mechanism: str, quantity: Quantity, column: Column, reference: Column
    ) -> Spread | None:
        """Return a ratio of two columns, None if one was not measured."""
        timing = self.timings.get((mechanism, quantity))
        return timing.ratio(column, reference) if timing else None


def page(timings: Sequence[Timing], facts: str) -> str:
    """Return the tables as one Markdown file.

    Args:
        timings: the measurements of ``python -m bench.speed``.
        facts: description of the machine and remarks, a list in Markdown.
    """
    measured = _Measured.of(timings)
    sheets = (_readme(measured), _ratios(measured), _text(measured))
    title = "# Tables of README.md and docs/speed.md, from `python -m bench.speed`\n"
    return "\n".join([title, facts, "", *(sheet.markdown() for sheet in sheets)])


def _readme(measured: _Measured) -> Sheet:
    """Return times of one state [µs] with, in brackets, ratios to Pinocchio."""
    rows = []
    for mechanism, quantity in README_ROWS:
        timing = measured.timings.get((mechanism, quantity))
        if timing is None:
            continue
        name = mechanism
        if mechanism == "Talos":
            # Six of its degrees of freedom belong to the base.
            name += f", {len(timing.mechanism.model.joint_names)} joints"
        cells = []
        for _, column, reference in README_COLUMNS:
            cell = measured.time(mechanism, quantity, column)
            ratio = reference and measured.ratio(mechanism, quantity, column, reference)
            cells.append(f"{cell} ({ratio.median:.2f})" if ratio else cell)
        rows.append([f"{name}: {WORDS[quantity]}", *cells])
    header = ["", *(heading for heading, *_ in README_COLUMNS)]
    return Sheet("README.md: one state [µs], ratio to Pinocchio in brackets", header, [rows])


def _ratios(measured: _Measured) -> Sheet:
    """Return the ratios of the Panda, median and quartiles."""
    rows = []
    for quantity in RATIO_ROWS:
        pairs = [(column, reference) for _, column, reference in RATIO_COLUMNS]
        found = [measured.ratio("Panda", quantity, *pair) for pair in pairs]
        if any(found):
            rows.append([quantity.value, *map(_quartiles, found)])
    header = ["Panda", *(heading for heading, *_ in RATIO_COLUMNS)]
    return Sheet("docs/speed.md: ratios, median and quartiles", header, [rows])


def _text(measured: _Measured) -> Sheet:
    """Return the numbers that stand in the text beside the tables."""
    batch = measured.time("Panda", Quantity.TERMS, Column.BATCH)
    plain = measured.ratio("Panda", Quantity.TERMS, Column.PLAIN, Column.PINOCCHIO)
    rows = [
        ["README.md: Panda, M, C, Cᵀv and g in a batch on one core [µs per state]", batch],
        ["README.md: plain dynamics_terms of a Panda / Pinocchio from Python", _quartiles(plain)],
    ]
    return Sheet("Numbers in the text", ["", "measured"], [rows])


def _number(value: float) -> str:
    return f"{value:.{2 if value < 10.0 else 1}f}"


def _quartiles(ratio: Spread | None) -> str:
    if ratio is None:
        return "-"
    digits = 3 if ratio.median < 0.3 else 2
    low, median, high = (f"{x:.{digits}f}" for x in (ratio.low, ratio.median, ratio.high))
    return f"{median} ({low}-{high})"
