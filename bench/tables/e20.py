"""Tables of E20: 3.1 (Coriolis matrix and Christoffel symbols) and 4.1 to 4.5 (rotors).

E20: Echeandia, Rigid-Body Dynamics Algorithms for Physically Interactive Robots, thesis, Notre
Dame 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rich.table import Table

from bench.tables.algorithm6 import printed_acceleration
from bench.tables.cylinders import Cylinders
from rbd_control.dynamics import (
    Model,
    Rotor,
    christoffel_symbols,
    coriolis_matrix,
    forward_dynamics,
    inverse_dynamics,
    mass_matrix,
    mass_matrix_rate,
    with_rotors,
)

BODIES = (5, 10, 15)
Figures = tuple[float, float, float]
"""Published numbers of a line of a table, one for each number of bodies in BODIES."""

ROTOR = Rotor(gear_ratio=5.0, inertia=1.0, mass=0.5)
WITHOUT_INERTIA = Rotor(gear_ratio=5.0, inertia=0.0)

MABA_ABA, MABA_MCRBA, MCRBA_ABA = (
    "rotors exact - none (MABA - ABA)",
    "rotors exact - reflected (MABA - MCRBA)",
    "rotors reflected - none (MCRBA - ABA)",
)
PUBLISHED: dict[str, dict[str, Figures]] = {
    "3.1": {
        "C v - RNEA without gravity [N·m]": (5.7e-14, 7.3e-12, 2.9e-11),
        "M_dot - C - Cᵀ [N·m·s]": (3.6e-15, 5.7e-14, 2.3e-13),
        "sum_k Gamma_11k v_k - C_11 [N·m·s]": (1.1e-13, 7.3e-12, 1.0e-12),
    },
    "4.1": {"inverse dynamics of the result - tau": (4.3e-14, 4.3e-13, 2.4e-13)},
    "4.2": {
        MABA_ABA: (8.4e-15, 2.9e-14, 1.9e-13),
        MABA_MCRBA: (1.5e-14, 6.1e-14, 2.2e-13),
        MCRBA_ABA: (6.2e-15, 6.7e-14, 2.1e-13),
    },
    "4.3": {
        MABA_ABA: (23.12, 39.14, 57.72),
        MABA_MCRBA: (0.026, 0.037, 0.062),
        MCRBA_ABA: (23.15, 39.18, 57.79),
    },
    "4.4": {
        MABA_ABA: (28.16, 79.64, 179.38),
        MABA_MCRBA: (0.037, 0.070, 0.11),
        MCRBA_ABA: (28.19, 79.69, 179.47),
    },
    "4.5": {
        MABA_ABA: (83.41, 171.97, 776.78),
        MABA_MCRBA: (1.51, 23.47, 102.61),
        MCRBA_ABA: (84.06, 179.53, 836.16),
    },
}


@dataclass(frozen=True)
class Case:
    """A mechanism of chapter 4 with its state and rotors, in the thesis' numbering of joints.

    ``n`` is the number of cylinders, ``children`` the number of branches at each, ``speed`` the
    velocity of all joints [rad/s].
    """

    n: int
    children: int = 1
    speed: float = 0.0
    rotor: Rotor = ROTOR

    @cached_property
    def mechanism(self) -> Cylinders:
        """Cylinders without rotors."""
        return Cylinders(self.n, self.children)

    @property
    def q(self) -> np.ndarray:
        """Joint positions, (n,): joint i is at i rad."""
        return np.arange(1.0, self.n + 1.0)

    @property
    def tau(self) -> np.ndarray:
        """Joint torques, (n,): joint i has i N·m."""
        return np.arange(1.0, self.n + 1.0)

    @property
    def v(self) -> np.ndarray:
        """Joint velocities, (n,): all are ``speed`` [rad/s]."""
        return np.full(self.n, self.speed)

    def model(self, *, reflected: bool = False) -> Model:
        """Return the mechanism with a rotor at each joint.

        Args:
            reflected: whether the rotors are approximated by n² I_R on the diagonal of M.
        """
        bare = self.mechanism.model
        return with_rotors(bare, dict.fromkeys(bare.joint_names, self.rotor), reflected=reflected)

    def in_our_order(
        self, function: Callable[..., np.ndarray], model: Model, *arguments: np.ndarray
    ) -> np.ndarray:
        """Return the result of a function of this package in the thesis' order of joints, (n,).

        Args:
            function: function of a model and joint vectors that returns a joint vector.
            model: the model.
            arguments: joint vectors in the thesis' order, (n,) each.
        """
        order = self.mechanism.order
        result = np.empty(self.n)
        result[order] = function(model, *(argument[order] for argument in arguments))
        return result

    @cached_property
    def geared(self) -> np.ndarray:
        """Acceleration with exact rotors, (n,) [rad/s²]."""
        return self.in_our_order(forward_dynamics, self.model(), self.q, self.v, self.tau)

    @cached_property
    def reflected(self) -> np.ndarray:
        """Acceleration with reflected rotors, (n,) [rad/s²]."""
        model = self.model(reflected=True)
        return self.in_our_order(forward_dynamics, model, self.q, self.v, self.tau)

    @cached_property
    def reflected_without_coriolis(self) -> np.ndarray:
        """M⁻¹ tau, which omits the term C v of E20 eq. 4.26, (n,) [rad/s²]."""

        def solved(model: Model, q: np.ndarray, tau: np.ndarray) -> np.ndarray:
            return np.linalg.solve(mass_matrix(model, q), tau)

        return self.in_our_order(solved, self.model(reflected=True), self.q, self.tau)

    @cached_property
    def bare(self) -> np.ndarray:
        """Acceleration without rotors, (n,) [rad/s²]."""
        model = self.mechanism.model
        return self.in_our_order(forward_dynamics, model, self.q, self.v, self.tau)

    @cached_property
    def exact(self) -> np.ndarray:
        """Acceleration by Lagrange's equations from the energy of links and rotors, (n,)."""
        return self.mechanism.acceleration(self.q, self.v, self.tau, self.rotor)

    def printed(self, *, ratio_at_joint: bool = True) -> np.ndarray:
        """Return the acceleration by E20 Algorithm 6 as printed, (n,) [rad/s²]."""
        return printed_acceleration(
            self.mechanism, self.q, self.v, self.tau, self.rotor, ratio_at_joint=ratio_at_joint
        )

    def torque_error(self, a: np.ndarray) -> float:
        """Return the largest error of inverse dynamics of an acceleration against ``tau`` [N·m].

        Args:
            a: acceleration that ``tau`` causes according to some algorithm, (n,) [rad/s²].
        """
        tau = self.in_our_order(inverse_dynamics, self.model(), self.q, self.v, a)
        return largest(tau - self.tau)

    def differences(self) -> dict[str, float]:
        """Return the largest differences of accelerations between algorithms, by name [rad/s²]."""
        return {
            MABA_ABA: largest(self.geared - self.bare),
            MABA_MCRBA: largest(self.geared - self.reflected),
            MCRBA_ABA: largest(self.reflected - self.bare),
        }

    def source_differences(self) -> dict[str, float]:
        """Return the differences that the thesis apparently computed, by name [rad/s²].

        :func:`origin_table` explains them.
        """
        reflected = self.reflected_without_coriolis
        maba = self.printed(ratio_at_joint=False)
        return {
            MABA_ABA: largest(maba - self.bare),
            MABA_MCRBA: largest(maba - reflected),
            MCRBA_ABA: largest(reflected - self.bare),
        }


CASES: dict[str, list[Case]] = {
    "4.1": [Case(n) for n in BODIES],
    "4.2": [Case(n, rotor=WITHOUT_INERTIA) for n in BODIES],
    "4.3": [Case(n) for n in BODIES],
    "4.4": [Case(n, children=2) for n in BODIES],
    "4.5": [Case(n, speed=np.pi / 2.0) for n in BODIES],
}


def largest(difference: np.ndarray) -> float:
    """Return the largest absolute value of an array."""
    return float(np.abs(difference).max())


def verification_errors(n: int) -> tuple[float, ...]:
    """Return the errors of C, M_dot and Gamma for a chain of ``n`` bodies.

    The first three are the lines of Table 3.1, the others the lines that
    :func:`verification_table` adds.
    """
    chain = Cylinders(n)
    q = v = np.arange(1.0, n + 1.0)
    C = coriolis_matrix(chain.model, q, v)
    contracted = christoffel_symbols(chain.model, q) @ v - C
    return (
        largest(C @ v - inverse_dynamics(chain.model, q, v, np.zeros(n))),
        largest(mass_matrix_rate(chain.model, q, v) - (C + C.T)),
        abs(float(contracted[0, 0])),
        largest(contracted),
        largest(C @ v - chain.bias(q, v)),
        largest(chain.mass_matrix_rate(q, v) - (C + C.T)),
        largest(C @ v),
    )


# --- Printing ------------------------------------------------------------------------------------


def figure(x: float) -> str:
    """Return a number as text, with as many digits as the thesis gives."""
    if x == 0.0:
        return "0"
    if x >= 1e5 or x < 1e-3:
        return f"{x:.1e}"
    return f"{x:.2f}" if x >= 1.0 else f"{x:.2g}"


class Comparison:
    """A table with two columns for each number of bodies: of E20 and ours.

    Args:
        title: title without "E20".
        caption: text below the table.
        second: heading of the second columns.

    Attributes:
        table: the table.
    """

    def __init__(self, title: str, caption: str, second: str = "ours") -> None:
        self.table = Table(title=f"E20 {title}", caption=caption, caption_justify="left")
        self.table.add_column("largest difference")
        for n in BODIES:
            for whose in ("E20", second):
                self.table.add_column(f"{n} bodies\n{whose}", justify="right")

    def add(
        self, label: str, published: Sequence[float] | None, ours: Sequence[float] | None
    ) -> None:
        """Add a line with one number for each number of bodies in the columns of each kind.

        Args:
            label: name of the line.
            published, ours: numbers of the first and the second columns; None if there are none.
        """
        columns = [
            len(BODIES) * ["-"] if x is None else list(map(figure, x)) for x in (published, ours)
        ]
        self.table.add_row(label, *(cell for pair in zip(*columns, strict=True) for cell in pair))


def verification_table() -> Table:
    """Return E20's Table 3.1, errors of C, M_dot and Gamma, with our results."""
    result = Comparison(
        "Table 3.1: largest errors of C, M_dot and Gamma, serial chains",
        "The thesis names no mechanism and no state here. Chosen: the cylinders of its chapter 4 "
        "with parallel axes, joint i at i rad and i rad/s. Our M_dot is C + Cᵀ by definition. All "
        "is rounding, so it grows with the torques. Below, what the thesis does not check: all of "
        "Gamma, and C v and M_dot against Lagrange's equations, with the kinetic energy "
        "differentiated by complex steps.",
    )
    columns = list(zip(*(verification_errors(n) for n in BODIES), strict=True))
    for (label, published), ours in zip(PUBLISHED["3.1"].items(), columns, strict=False):
        result.add(label, published, ours)
    result.table.add_section()
    added = (
        "sum_k Gamma_ijk v_k - C_ij, all i, j",
        "C v - that of Lagrange's equations [N·m]",
        "M_dot of the energy - C - Cᵀ [N·m·s]",
        "for scale: largest of C v [N·m]",
    )
    for label, ours in zip(added, columns[3:], strict=True):
        result.add(label, None, ours)
    return result.table


def consistency_table() -> Table:
    """Return E20's Table 4.1, consistency of forward and inverse dynamics, with our results."""
    result = Comparison(
        "Table 4.1: forward, then inverse dynamics with rotors, serial chains at rest [N·m]",
        "Mechanism and state of Table 4.3. The last line is Algorithm 6 of the thesis run here: as "
        "printed it counts the torque of each motor twice and leaves terms of the mass matrix out, "
        "so it does not invert inverse dynamics with rotors.",
    )
    cases = CASES["4.1"]
    ((label, published),) = PUBLISHED["4.1"].items()
    result.add(label, published, [case.torque_error(case.geared) for case in cases])
    printed = [case.torque_error(case.printed()) for case in cases]
    result.add("the same of Algorithm 6 as printed", printed, None)
    return result.table


def rotor_table(number: str, what: str, caption: str) -> Table:
    """Return one of E20's Tables 4.2 to 4.5, effects of rotors on accelerations, with our results.

    Args:
        number: number of the table, such as ``4.2``.
        what: mechanism and state, for the title.
        caption: text below the table.
    """
    cases = CASES[number]
    result = Comparison(f"Table {number}: joint accelerations, {what} [rad/s²]", caption)
    differences = [case.differences() for case in cases]
    for label, published in PUBLISHED[number].items():
        result.add(label, published, [difference[label] for difference in differences])
    result.table.add_section()
    ours = [largest(case.geared - case.exact) for case in cases]
    printed = None
    if np.any(cases[0].rotor.inertia):
        printed = [largest(case.printed() - case.exact) for case in cases]
    result.add("error against Lagrange's equations (E20: Algorithm 6 run here)", printed, ours)
    return result.table


def origin_table() -> Table:
    """Return a table that explains the origin of the numbers in E20's Tables 4.3 to 4.5."""
    result = Comparison(
        "Tables 4.3 to 4.5: where the thesis' own figures come from [rad/s²]",
        "Recomputed with two errors. MABA is Algorithm 6 with the gear ratio left out where the "
        "force on a rotor reaches the joint (Phi_i for Phi_Ri in lines 17 and 21): it gives every "
        "figure at rest within 0.01 rad/s², in motion only about (to 1.2% and 15%). MCRBA leaves "
        "out the C v of eq. 4.26: it gives every figure, at rest and in motion. So the published "
        "differences are not those of exact rotors; the errors are against Lagrange's equations.",
        "recomputed",
    )
    for number in ("4.3", "4.4", "4.5"):
        result.table.add_section()
        cases = CASES[number]
        recomputed = [case.source_differences() for case in cases]
        for label, published in PUBLISHED[number].items():
            result.add(f"{number}: {label}", published, [r[label] for r in recomputed])
        errors = [largest(c.printed(ratio_at_joint=False) - c.exact) for c in cases]
        result.add(f"{number}: error of that MABA", None, errors)
    return result.table


def tables() -> list[Table]:
    """Return the tables of E20 with our results."""
    return [
        verification_table(),
        consistency_table(),
        rotor_table(
            "4.2",
            "rotors without inertia, serial chains at rest",
            "MABA is forward dynamics with rotors; MCRBA takes rotors as n² I_R on the diagonal "
            "of M; ABA has none. Ours are zero because such rotors add zeros to one and the same "
            "recursion, while MCRBA solves with M. The error is rounding, times the condition "
            "number of M of up to 1e4.",
        ),
        rotor_table(
            "4.3",
            "serial chains at rest",
            "As the thesis states: thin-walled cylinders of 1 kg and 1 m; rotors of 0.5 kg, gear "
            "ratio 5; joint i at i rad with i N·m; no gravity. It does not state the joint axes "
            "and the inertia of the rotors: parallel axes and 1 kg·m² are what gives its third "
            "line to all digits. Chosen: radius 5 cm, as in the package the thesis uses; rotors "
            "balanced, on the axis of their joint. Lines 1 and 2 differ because the thesis' "
            "rotors are not exact; its error in the last line is that of its Algorithm 6 as "
            "printed, run here.",
        ),
        rotor_table(
            "4.4",
            "trees with two branches at each link, at rest",
            "As Table 4.3, links numbered breadth first.",
        ),
        rotor_table(
            "4.5",
            "serial chains at pi/2 rad/s",
            "As Table 4.3. Line 3 differs because the thesis leaves the C v of its eq. 4.26 out.",
        ),
        origin_table(),
    ]
