"""Comparison of all libraries on one mechanism: differences of their results, and their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.speed import ours, with_mujoco, with_pinocchio
from bench.speed.measure import DURATION, ROUNDS, Spread, measure, spread
from bench.speed.mechanisms import ROTOR, Mechanism
from bench.speed.quantities import Column, Contestant, Quantity, Results
from bench.speed.rivals import Rivals
from bench.speed.with_pinocchio_cpp import Library
from rbd_control.dynamics import forward_dynamics, with_rotors

IN_FIGURES = (Quantity.TERMS, Quantity.CHRISTOFFEL)
"""Quantities that are frozen for every size; compiling all of them would take minutes."""

TWO_WAYS = (Quantity.MASS, Quantity.GDAHJ)

THEIRS = (Column.PINOCCHIO, Column.PINOCCHIO_CPP, Column.MUJOCO)

AGREEMENT = 1e-6
"""Tolerance of results, relative to the largest entry.

Rounding errors are largest for accelerations of a hundred links, some 1e-8.
"""


@dataclass(frozen=True)
class Timing:
    """Times of all columns for one quantity of one mechanism: one row of the table."""

    mechanism: Mechanism
    quantity: Quantity
    seconds: dict[Column, np.ndarray]
    """Time of one call or state in each round [s], by column."""

    def microseconds(self, column: Column) -> Spread | None:
        """Return the time of one call or state [µs]; None if the column was not measured."""
        return spread(1e6 * self.seconds[column]) if column in self.seconds else None

    def ratio(self, column: Column, reference: Column) -> Spread | None:
        """Return the time of ``column`` divided by the time of ``reference`` in the same round.

        It is None if one of the columns was not measured.
        """
        if column not in self.seconds or reference not in self.seconds:
            return None
        return spread(self.seconds[column] / self.seconds[reference])


class Contest:
    """All contestants (libraries and ways to call them) for the quantities of one mechanism.

    Args:
        mechanism: the mechanism.
        quantities: quantities that take part; None for all quantities of the mechanism.

    Attributes:
        mechanism: the mechanism.
        without_mujoco: reason why MuJoCo rejects the mechanism; empty if MuJoCo takes part.
    """

    def __init__(self, mechanism: Mechanism, quantities: Sequence[Quantity] | None = None) -> None:
        self.mechanism = mechanism
        self.without_mujoco = ""
        self._twin = with_pinocchio.Twin(mechanism)
        chosen = [q for q in mechanism.quantities if quantities is None or q in quantities]
        self._contestants: dict[Quantity, dict[Column, Contestant]] = {
            quantity: {
                Column.PLAIN: ours.plain(mechanism, quantity),
                Column.BATCH: ours.batch(mechanism, quantity),
            }
            for quantity in chosen
        }
        frozen = ours.freeze_all(mechanism)
        for quantity, contestants in self._contestants.items():
            if quantity in frozen and (mechanism.featured or quantity in IN_FIGURES):
                contestants |= ours.frozen(mechanism, quantity, frozen[quantity])
            contestants[Column.PINOCCHIO] = with_pinocchio.contestant(self._twin, quantity)
        self._add_mujoco()

    def _add_mujoco(self) -> None:
        try:
            model = with_mujoco.model_of(self.mechanism)
        except ValueError as error:
            self.without_mujoco = " ".join(str(error).split())
            return
        for quantity, contestants in self._contestants.items():
            if quantity in with_mujoco.FUNCTIONS:
                contestants[Column.MUJOCO] = with_mujoco.contestant(self.mechanism, quantity, model)

    def add_cpp(self, library: Library) -> None:
        """Add Pinocchio, called from C++, to the contestants."""
        for quantity, contestants in self._contestants.items():
            contestants[Column.PINOCCHIO_CPP] = library.contestant(self._twin, quantity)

    def add_rivals(self, rivals: Rivals) -> None:
        """Add exported C, CasADi, Drake and frax for the quantities that they have."""
        found = rivals.contestants(self.mechanism, self._twin)
        for (quantity, column), contestant in found.items():
            if quantity in self._contestants:
                self._contestants[quantity][column] = contestant

    def disagreement(self) -> float:
        """Return the largest difference of any result from ours, relative to our largest entry.

        The call also compiles all functions that are not compiled yet.

        Raises:
            ValueError: if the difference exceeds :data:`AGREEMENT`, because times of wrong results
                mean nothing.
        """
        worst = 0.0
        for quantity, contestants in self._contestants.items():
            mine = contestants[Column.PLAIN].result()
            theirs = self._reflected() if quantity is Quantity.ROTORS else mine
            for column, contestant in contestants.items():
                expected = theirs if column in THEIRS else mine
                result = contestant.result()
                difference = _largest_difference(result, expected)
                if difference > AGREEMENT:
                    who = " ".join(column.value.split())
                    raise ValueError(
                        f"{self.mechanism.name}: {quantity.value} of {who} differs from ours by "
                        f"{difference:.1e} of its largest entry"
                    )
                worst = max(worst, difference)
        return worst

    def timings(self, rounds: int = ROUNDS, duration: float = DURATION) -> list[Timing]:
        """Measure all contestants, and return the times of each quantity.

        Both algorithms for M are timed in the same round, so that they can be compared.

        Args:
            rounds: number of measurements of each contestant.
            duration: duration of one measurement [s].
        """
        rest = [(q,) for q in self._contestants if q not in TWO_WAYS]
        timings = {}
        for group in (TWO_WAYS, *rest):
            runs = {
                (quantity, column): contestant.run
                for quantity in group
                for column, contestant in self._contestants.get(quantity, {}).items()
            }
            seconds = measure(runs, rounds, duration)
            for quantity in group:
                own = {column: times for (q, column), times in seconds.items() if q is quantity}
                timings[quantity] = Timing(self.mechanism, quantity, own)
        return [timings[quantity] for quantity in self._contestants]

    def _reflected(self) -> Results:
        """Return the result with rotors as in other libraries: n² I_R on the diagonal of M."""
        model = self.mechanism.model
        rotors = dict.fromkeys(model.joint_names, ROTOR)
        inputs = self.mechanism.states.inputs(Quantity.ROTORS)
        reflected = with_rotors(model, rotors, reflected=True)
        return (forward_dynamics(reflected, *(array[0] for array in inputs)),)


def _largest_difference(values: Results, reference: Results) -> float:
    """Return the largest difference; 0 for a library without a comparable result."""
    differences = [
        float(np.abs(value - expected).max() / np.abs(expected).max())
        for value, expected in zip(values, reference, strict=False)
    ]
    # A NaN counts as a difference.
    return max((np.inf if np.isnan(d) else d for d in differences), default=0.0)
