"""Optional contestants: exported C, CasADi's C code of Pinocchio, Drake and frax."""

from __future__ import annotations

from time import perf_counter
from typing import TypeAlias

from bench.export import ours, with_casadi
from bench.export.library import NAMES, compiler
from bench.speed import with_drake, with_frax
from bench.speed.mechanisms import Mechanism
from bench.speed.quantities import Column, Contestant, Quantity
from bench.speed.with_pinocchio import Twin

ROBOTS = ("Panda", "UR5")
"""Robots with these contestants; generated code of large robots compiles for many minutes."""

Found: TypeAlias = dict[tuple[Quantity, Column], Contestant]


class Rivals:
    """Exported C, CasADi's C code of Pinocchio, Drake and frax, as far as they are installed.

    The first instance builds the generator of CasADi's code, which takes two minutes; later runs
    use it again.

    Attributes:
        problems: reason why a library does not take part, by column.
    """

    def __init__(self) -> None:
        self._generator = with_casadi.Generator()
        try:
            compiler()
            without_c = ""
        except RuntimeError as error:
            without_c = str(error)
        reasons = {
            Column.EXPORTED: without_c,
            Column.CASADI: self._generator.problem or without_c,
            Column.DRAKE: with_drake.problem(),
            Column.FRAX: with_frax.problem(),
        }
        self.problems = {column: reason for column, reason in reasons.items() if reason}

    def contestants(self, mechanism: Mechanism, twin: Twin) -> Found:
        """Return the contestants of a robot by quantity and column.

        The result is empty for a mechanism that is not in :data:`ROBOTS`.

        Args:
            mechanism: the mechanism.
            twin: the same mechanism in Pinocchio.
        """
        found: Found = {}
        if mechanism.name not in ROBOTS:
            return found
        for column, add in (
            (Column.EXPORTED, self._add_exported),
            (Column.CASADI, self._add_casadi),
            (Column.DRAKE, self._add_drake),
            (Column.FRAX, self._add_frax),
        ):
            if column in self.problems:
                continue
            try:
                add(mechanism, twin, found)
            except ImportError as error:  # installed, but broken
                self.problems[column] = " ".join(str(error).split())
        return found

    def _add_exported(self, mechanism: Mechanism, _: Twin, found: Found) -> None:
        library = ours.library(mechanism, ours.exported(mechanism))
        for quantity in NAMES:
            run = ours.contestant(library, mechanism, quantity, perf_counter)
            found[quantity, Column.EXPORTED] = run

    def _add_casadi(self, _: Mechanism, twin: Twin, found: Found) -> None:
        library = with_casadi.library(self._generator.source(twin), twin)
        for quantity in with_casadi.QUANTITIES:
            run = with_casadi.contestant(library, twin, quantity, perf_counter)
            found[quantity, Column.CASADI] = run

    def _add_drake(self, mechanism: Mechanism, _: Twin, found: Found) -> None:
        robot = with_drake.robot_of(mechanism)
        for quantity in with_drake.QUANTITIES:
            found[quantity, Column.DRAKE] = with_drake.contestant(mechanism, robot, quantity)

    def _add_frax(self, mechanism: Mechanism, _: Twin, found: Found) -> None:
        robot = with_frax.robot_of(mechanism)
        for quantity in with_frax.QUANTITIES:
            called, batch = with_frax.contestants(mechanism, robot, quantity)
            found[quantity, Column.FRAX], found[quantity, Column.FRAX_BATCH] = called, batch
