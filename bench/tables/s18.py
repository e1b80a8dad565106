"""S18 Table I (operations) and Fig. 5 (the relative error e of eq. 32).

S18: Safeea, Béarée & Neto, Reducing the Computational Complexity of Mass-Matrix Calculation for
High DOF Robots, IROS 2018.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from bench.counting import Tally, interpreted, numbers
from rbd_control.dynamics import Model, mass_matrix, mass_matrix_gdahj
from rbd_control.dynamics.constants import constants_of
from rbd_control.dynamics.coriolis import mass_matrix_sweep
from rbd_control.dynamics.papers.gdahj import Columns, chain_of, gdahj_sweep
from rbd_control.dynamics.sweep import new_sweep, place_bodies

try:
    import pinocchio as pin
except ImportError:
    pin = None

Polynomial = tuple[float, float, float]
"""Coefficients of n², n and 1."""


class Operations(NamedTuple):
    """Multiplications and additions, as numbers for one n or as polynomials of n."""

    multiplications: Any
    additions: Any


TABLE_I = {
    "GDAHJ": Operations((3.0, 88.0, -3.0), (2.5, 95.5, -18.0)),
    "CRBA": Operations((10.0, 22.0, -32.0), (6.0, 37.0, -43.0)),
}
"""S18 Table I; the second line is from Featherstone (2008), eq. 10.3."""

EXPLANATION = """\
Sines and cosines are not counted, nor, but for the last column, the kinematics: GDAHJ and our
CRBA are given the positions and orientations of the links.
GDAHJ: beside Algorithm 1, 3n² + 3n multiplications, S18 gives no breakdown. Ours takes a link's
first moment of mass and its inertia about its origin as constants, and multiplies R I Rᵀ out in
30, not 45 (the inertia is of rank two beside a multiple of 1). Nothing hangs from the last link:
-12, and -18 additions.
CRBA: Table I has it in link frames, with the transforms from one to the next. Ours is in base
axes and has 3n² like GDAHJ: what GDAHJ saves in n² it saves by the choice of axes. The source of
ours executes 18n multiplications that the compiler drops (entries of a symmetric matrix that
nobody reads, m p once more), and n² additions into M, where rotors share entries. In the source
of GDAHJ the compiler finds nothing to drop.
Kinematics: what both need first, for joint axes in any direction and geared rotors. Table I's
CRBA needs none of it."""

COUNTED_AT = (1, 2, 5, 7, 10, 13, 20, 30)
JOINTS = (2, 5, 10, 15, 20, 30, 40, 50)
TRIALS = 20
SEED = 18


class Chain(NamedTuple):
    """A random manipulator as in S18 section IV, with its Pinocchio model."""

    model: Model
    q: np.ndarray
    twin: Any


# --- The mechanisms ------------------------------------------------------------------------------


def random_chain(n: int, rng: np.random.Generator) -> Chain:
    """Return a random chain of ``n`` revolute joints, with a random posture.

    As in S18, masses are in [1, 10] kg, and inertias are positive definite with elements in
    [1, 10] kg·m². S18 does not give the following ranges: modified Denavit-Hartenberg lengths a and
    d in [0, 1] m, twists and joint angles in [-pi, pi], centres of mass within 0.5 m of the frame
    along each axis.

    One of 170 such matrices is the inertia of a body (triangle inequality). A URDF with any other
    matrix would be rejected, so the matrices are written to the arrays of the model.
    """
    a, d = rng.uniform(0.0, 1.0, (2, n))
    twist, q = rng.uniform(-np.pi, np.pi, (2, n))
    mass = rng.uniform(1.0, 10.0, n)
    centre = rng.uniform(-0.5, 0.5, (n, 3))
    inertia = np.array([_positive_definite(rng) for _ in range(n)])
    offset = np.stack([a, -d * np.sin(twist), d * np.cos(twist)], axis=1)
    model = Model.from_urdf(_urdf(twist, offset))
    second = 0.5 * np.trace(inertia, axis1=1, axis2=2)[:, None, None] * np.eye(3) - inertia
    arrays = model.arrays._replace(
        mass=mass,
        first_moment=mass[:, None] * centre,
        second_moment=second + mass[:, None, None] * centre[:, :, None] * centre[:, None, :],
    )
    return Chain(replace(model, arrays=arrays), q, _twin(arrays, mass, centre, inertia))


def _positive_definite(rng: np.random.Generator) -> np.ndarray:
    while True:
        inertia = np.empty((3, 3))
        rows, columns = np.triu_indices(3)
        inertia[rows, columns] = inertia[columns, rows] = rng.uniform(1.0, 10.0, 6)
        if np.linalg.eigvalsh(inertia)[0] > 0.0:
            return inertia


def _urdf(twist: np.ndarray, offset: np.ndarray) -> str:
    unit = (
        '<inertial><mass value="1"/>'
        '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    )
    parts = ['<robot name="chain"><link name="link0"/>']
    for i, (angle, (x, y, z)) in enumerate(zip(twist.tolist(), offset.tolist(), strict=True)):
        parts.append(
            f'<link name="link{i + 1}">{unit}</link><joint name="joint{i + 1}" type="continuous">'
            f'<parent link="link{i}"/><child link="link{i + 1}"/><axis xyz="0 0 1"/>'
            f'<origin xyz="{x!r} {y!r} {z!r}" rpy="{angle!r} 0 0"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def _twin(arrays: Any, mass: np.ndarray, centre: np.ndarray, inertia: np.ndarray) -> Any:
    if pin is None:
        return None
    twin = pin.Model()
    for i in range(mass.size):
        place = pin.SE3(arrays.rotation[i], arrays.translation[i])
        joint = twin.addJoint(i, pin.JointModelRZ(), place, f"joint{i + 1}")
        body = pin.Inertia(float(mass[i]), centre[i], inertia[i])
        twin.appendBodyToJoint(joint, body, pin.SE3.Identity())
    return twin


# --- Table I -------------------------------------------------------------------------------------


def counted(n: int) -> dict[str, Operations]:
    """Return the operation counts of GDAHJ, CRBA and their common kinematics for ``n`` joints.

    CRBA is our composite-rigid-body algorithm, without the kinematics.
    """
    model, q, _ = random_chain(n, np.random.default_rng(SEED))
    tally = Tally()

    def counting(arrays: Any) -> Any:
        return type(arrays)(*(numbers(np.asarray(array), tally) for array in arrays))

    def operations(kernel: Any, *arguments: Any) -> Operations:
        tally.multiplications = tally.additions = 0
        interpreted(kernel)(*arguments)
        return Operations(tally.multiplications, tally.additions)

    arrays, angles = counting(constants_of(model.arrays)), numbers(q, tally)
    s = counting(interpreted(new_sweep)(n))
    columns = counting(Columns(*np.empty((4, n, 3))))
    M, A = np.empty((2, n, n), dtype=object)
    kinematics = operations(place_bodies, arrays, angles, s)
    gdahj = operations(gdahj_sweep, counting(chain_of(model)), s, columns, A)
    crba = operations(mass_matrix_sweep, arrays, angles, s, M)  # places the bodies itself
    return {
        "GDAHJ": gdahj,
        "CRBA": Operations(*(x - y for x, y in zip(crba, kinematics, strict=True))),
        "kinematics": kinematics,
    }


def polynomial(counts: dict[int, int]) -> Polynomial:
    """Return the polynomial of second degree through operation counts.

    Its coefficients are multiples of one half.

    Args:
        counts: counts by number of joints n, for three or more n.

    Raises:
        ValueError: if there is no such polynomial.
    """
    n = np.array(list(counts), dtype=float)
    values = np.array(list(counts.values()), dtype=float)
    c2, c1, c0 = np.round(2.0 * np.polyfit(n, values, 2)) / 2.0
    if not np.array_equal(c2 * n**2 + c1 * n + c0, values):
        raise ValueError(f"{counts} is no polynomial of second degree")
    return float(c2), float(c1), float(c0)


def _formula(coefficients: Polynomial) -> str:
    terms = zip(coefficients, ("n²", "n", ""), strict=True)
    text = " ".join(f"{'+' if c > 0 else '-'} {abs(c):g}{unit}" for c, unit in terms if c)
    return text.removeprefix("+ ")


def operation_tables() -> list[Table]:
    """Return S18's Table I beside the operations of our code, counted while its source runs."""
    counts = {n: counted(n) for n in COUNTED_AT}
    multiplications = _operation_table(counts, "multiplications")
    additions = _operation_table(counts, "additions")
    additions.caption = EXPLANATION
    additions.caption_justify = "left"
    return [multiplications, additions]


def _operation_table(counts: dict[int, dict[str, Operations]], kind: str) -> Table:
    table = Table(title=f"S18 Table I: {kind} for one mass matrix of n joints")
    table.add_column("n", justify="right")
    columns: list[list[str]] = []
    for method in ("GDAHJ", "CRBA", "kinematics"):
        if method in TABLE_I:
            table.add_column(f"{method}\nS18", justify="right")
            published = getattr(TABLE_I[method], kind)
            values = [f"{np.polyval(published, n):.0f}" for n in COUNTED_AT]
            columns.append([*values, _formula(published)])
        table.add_column(f"{method}\nours, counted", justify="right")
        ours = {n: getattr(counts[n][method], kind) for n in COUNTED_AT}
        columns.append([*map(str, ours.values()), _formula(polynomial(ours))])
    *rows, formulas = zip([*map(str, COUNTED_AT), "any"], *columns, strict=True)
    for row in rows:
        table.add_row(*row)
    table.add_section()
    table.add_row(*formulas)
    return table


# --- Fig. 5 --------------------------------------------------------------------------------------


def metric(A: np.ndarray, B: np.ndarray) -> float:
    """Return the relative error e of S18 eq. 32 between two matrices.

    It is the sum of the absolute differences of all elements, divided by the largest element of the
    mean matrix.
    """
    return float(np.abs(A - B).sum() / np.abs((A + B) / 2.0).max())


def errors(n: int, trials: int = TRIALS) -> tuple[np.ndarray, np.ndarray]:
    """Return the relative errors of GDAHJ for random chains of ``n`` joints, see :func:`metric`.

    Returns:
        Errors against our CRBA, and against Pinocchio's (NaN if Pinocchio is not installed),
        (trials,) each.
    """
    rng = np.random.default_rng((SEED, n))
    ours, theirs = np.empty(trials), np.full(trials, np.nan)
    for i in range(trials):
        model, q, twin = random_chain(n, rng)
        A = mass_matrix_gdahj(model, q)
        ours[i] = metric(A, mass_matrix(model, q))
        if twin is not None:
            M = np.triu(pin.crba(twin, twin.createData(), q))
            theirs[i] = metric(A, M + np.triu(M, 1).T)
    return ours, theirs


def error_table() -> Table:
    """Return S18's Fig. 5 as a table: the relative error of GDAHJ by number of joints."""
    table = Table(
        title=f"S18 Fig. 5: relative error e (eq. 32) of GDAHJ against CRBA, {TRIALS} random "
        "chains each",
        caption=(
            "S18 plots e and prints no number; its text calls the error small and attributes it to "
            "rounding. e sums n² differences, so rounding is some n² times the machine epsilon.\n"
            "Our CRBA is in base axes, as GDAHJ; Pinocchio's is a code of its own."
        ),
        caption_justify="left",
    )
    table.add_column("n", justify="right")
    table.add_column("S18")
    for heading in ("our CRBA\nmedian", "our CRBA\nlargest", "Pinocchio\nmedian"):
        table.add_column(heading, justify="right")
    table.add_column("Pinocchio\nlargest", justify="right")
    table.add_column("n² eps", justify="right")
    for n in JOINTS:
        ours, theirs = errors(n)
        values = (np.median(ours), ours.max(), np.median(theirs), theirs.max())
        rounding = n**2 * np.finfo(float).eps
        shown = [f"{e:.1e}" if np.isfinite(e) else "not installed" for e in (*values, rounding)]
        table.add_row(str(n), '"small"', *shown)
    return table


def tables() -> list[Table]:
    """Return the tables of S18 with our results."""
    return [*operation_tables(), error_table()]
