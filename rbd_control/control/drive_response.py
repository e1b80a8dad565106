"""Detection of a drive whose torque acts against its command, or not at all.

On the first day on a robot a drive may turn the wrong way, or two motors may be swapped. Feedback
and brake then drive the arm. For each joint the torque that the motion shows is compared with the
torque that was sent. With the momentum p = M v, over each period::

    shown = dp / dt - Cᵀ v + g          (g: the gravity torque that the commands contain)

Both torques are filtered alike, and fitted by ``shown = -ratio sent`` over the last
:data:`WINDOW`. A drive is reversed if the joint moves, the sent torque opposes its motion and is at
least :data:`LEVEL` of the effort limit, the shown torque accelerates it, the fit is good (its
coefficient of determination R² exceeds a bound), and the ratio is between bounds. Friction cannot
imitate it, because it accelerates no joint. The ratio of a reversed drive is M / (M + B), with the
inertia B of rotor and gear that the model lacks: below 0.1 for a light wrist. Two motors are
swapped if each joint shows the torque of the other, and not its own.

A hand or a collision accelerates a healthy joint against its motor torque, too: its force is then
``-(1 + ratio) sent``. But the controller answers to the motion with a delay, so the ratio of force
and torque changes all the time, and the fit is poor. The bounds are therefore narrow while the arm
is under control, and wide just after a fault, whose cause must be found before the brake acts. A
drive that has moved its joint with the sent torque for :data:`PROOF` since the start is wired
right: whatever accelerates its joint later is a hand or a collision, and its motor is not swapped.

Joint states that repeat, because the hardware updates less often than the driver publishes, are no
measurements: the next new one is compared with the mean torque since the last.

A dead drive shows no torque, as if ``ratio`` were zero. A joint that is pushed may show none
either, so a dead drive is named only just after a fault, and its joint still gets torque: a brake
against a push, or without effect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import DriveParameters, commanded
from rbd_control.dynamics import Model
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.sweep import new_sweep

Array = NDArray[np.float64]

WINDOW = 0.05
"""Time constant of the fit [s]."""

PERIODS = 5.0
"""Least time constant of the fit in periods of the joint states."""

LONGEST_PERIOD = 0.05
"""Longest time between two new joint states that are compared [s]."""

SMOOTHING = 0.005
"""Time constant of the filter of both torques [s]; differences of velocities are noisy."""

PROOF = 0.2
"""Time for which a moving joint must show the sent torque to prove its drive [s]."""

LEAST_PROOF = 0.01
"""Least root mean square of the sent torque that proves a drive, as a share of the effort limit."""

OBEYS = 0.5
"""Least ratio of shown to sent torque of a drive that proves itself."""

FIT = 0.9
"""Least R² of this proof, and of a fault in mode safe."""

DEAD = 0.2
"""Largest root mean square of the torque that a joint with a dead drive shows, as a share of the
sent torque: it has some friction."""

LEVEL = 0.03
"""Least root mean square of the sent torque, as a share of the effort limit."""

FRESH = 0.06
"""Time after a fault in which the bounds of :data:`SUSPECT` apply [s]."""


SWAPPED = (0.3, 1.5)
"""Ratios of the torque that a joint shows to the sent torque of the swapped joint."""

OWN = 0.5
"""R² of the fit to its own sent torque with which a joint is not swapped, if it shows this torque,
or perhaps pushed, if it shows the opposite."""


class DriveFault(NamedTuple):
    """Joints that do not move as their torque demands, and the reason."""

    joints: tuple[int, ...]
    reason: str
    is_certain: bool = True
    """Whether their drives cannot be trusted: False if the joint may also be pushed."""


class Evidence(NamedTuple):
    """Bounds for a drive to count as reversed."""

    least_ratio: float
    """Least ratio of shown to sent torque."""
    largest_ratio: float
    """Largest ratio of shown to sent torque."""
    fit: float
    """Least R² of the fit."""
    is_strict: bool = False
    """Whether a joint that may be pushed does not count as swapped."""


CERTAIN = Evidence(0.4, 1.5, 0.95, is_strict=True)
"""Bounds under control, for a joint above :data:`SPEED_SHARE` of its velocity limit."""

LIKELY = Evidence(0.3, 1.5, FIT)
"""Bounds in mode safe."""

SUSPECT = Evidence(0.02, 1.5, 0.8)
"""Bounds for the first :data:`FRESH` after a fault."""

SPEED_SHARE = 0.5
"""Least speed of the joint under control, as a share of its velocity limit."""

SLOWEST = 0.05
"""Least speed of the joint in mode safe [rad/s or m/s]."""


class DriveResponse:
    """Compares the torque of each joint's motion with the sent torque, see the module.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory = np.zeros((5, joints))
        self._products = np.zeros((joints, joints))
        self._proof = np.zeros(joints)
        self._time = 0.0
        self._held, self._impulse = 0.0, np.zeros(joints)
        """Time of repeated joint states [s], and the integral of the sent torque over it."""

    def set_parameters(self, model: Model, effort: Array, drives: DriveParameters) -> None:
        """Use another model, other effort limits or another kind of arm from now on.

        Args:
            model: the arm.
            effort: (nv,) effort limits [N·m or N].
            drives: the gravity that the arm compensates by itself, which no command contains.
        """
        self._model = commanded(drives, model).packed
        self._effort, self._names = effort, model.joint_names

    def reset(self) -> None:
        """Forget all samples, and which drives are proven."""
        self._time, self._held = 0.0, 0.0
        self._proof[:] = 0.0

    def take(self, dt: float, q: Array, v: Array, sent: Array, repeats: bool = False) -> None:
        """Take a sample.

        Args:
            dt: time since the previous sample [s]; 0 restarts the comparison.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            sent: (nv,) command since the previous sample [N·m or N].
            repeats: whether the sample repeats the previous one, so that it shows nothing.
        """
        if repeats and dt > 0.0:
            self._impulse += dt * sent
            self._held += dt
            return
        if self._held > 0.0:
            sent = (self._impulse + dt * sent) / (self._held + dt)
            dt, self._held = dt + self._held, 0.0
            self._impulse[:] = 0.0
        if not 0.0 < dt <= LONGEST_PERIOD:
            self._time = 0.0
        continues = self._time > 0.0
        compare_torques(self._model, q, v, sent, dt, continues, self._memory, self._products)
        self._time += max(dt, 1e-9)
        if self._time >= WINDOW:
            prove(self._memory, self._products, self._effort, v, dt, self._proof)

    def fault(self, bounds: Evidence, v: Array, slowest: Array) -> DriveFault | None:
        """Return the joints whose drives act against their commands or are swapped, or None.

        Args:
            bounds: bounds of the fit.
            v: (nv,) measured velocities [rad/s or m/s].
            slowest: (nv,) least speed for a joint to count as reversed [rad/s or m/s].
        """
        if self._time < WINDOW:
            return None
        memory, products, proven = self._memory, self._products, self._proof >= PROOF
        i, j = find_fault(memory, products, self._effort, v, slowest, proven, bounds)
        if i < 0:
            return None
        if j >= 0:
            return DriveFault(
                (i, j),
                f"the motors of {self._names[i]} and {self._names[j]} are swapped: each moves as "
                f"the other should; check the wiring and the order of the joints",
            )
        return DriveFault(
            (i,),
            f"reversed or dead drive: {self._names[i]} accelerates against its torque; check the "
            f"wiring, the sign and the order of the motors",
        )

    def dead(self, v: Array) -> DriveFault | None:
        """Return a joint that moves against its torque as if none was sent, or None.

        Its drive is dead or has too little torque for the inertia of its rotor, or it is pushed.

        Args:
            v: (nv,) measured velocities [rad/s or m/s].
        """
        if self._time < WINDOW:
            return None
        sent = self._memory[3]
        is_dead = (np.sqrt(sent) >= 2.0 * LEVEL * self._effort) & (self._memory[2] * v < 0.0)
        is_dead &= (self._memory[4] <= DEAD**2 * sent) & (np.abs(v) >= SLOWEST)
        if not is_dead.any():
            return None
        i = int(np.argmax(is_dead * sent))
        what = "dead drive" if self._proof[i] >= PROOF else "reversed or dead drive"
        return DriveFault(
            (i,),
            f"{what}, or a push: {self._names[i]} moves against its torque as if none was sent; "
            f"check its power and its mode, and the order of the motors",
            is_certain=False,
        )


@compiled
def compare_torques(packed, q, v, sent, dt, continues, memory, products):  # type: ignore[no-untyped-def]
    """Update the sums of the fit, see the module.

    Args:
        packed: the model with the gravity that the commands contain, as :attr:`Model.packed`.
        q, v: measured positions and velocities, (n,) each [rad or m, rad/s or m/s].
        sent: (n,) command since the previous sample [N·m or N].
        dt: time since the previous sample [s].
        continues: whether there is a previous sample.
        memory: (5, n), changed in place: momentum, filtered shown and sent torque, and the means
            of sent² and shown².
        products: (n, n), changed in place: means of the shown torque of a joint (row) times the
            sent torque of a joint (column).
    """
    model, n = unpacked(packed), q.shape[0]
    p, CTv, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, v, new_sweep(model.parent.shape[0]), p, CTv, g)
    if continues and dt > 0.0:
        smooth = 1.0 - np.exp(-dt / SMOOTHING)
        share = 1.0 - np.exp(-dt / max(WINDOW, PERIODS * dt))
        for i in range(n):
            shown = (p[i] - memory[0, i]) / dt - CTv[i] + g[i]
            memory[1, i] += smooth * (shown - memory[1, i])
            memory[2, i] += smooth * (sent[i] - memory[2, i])
            memory[3, i] += share * (memory[2, i] * memory[2, i] - memory[3, i])
            memory[4, i] += share * (memory[1, i] * memory[1, i] - memory[4, i])
        for i in range(n):
            for j in range(n):
                products[i, j] += share * (memory[1, i] * memory[2, j] - products[i, j])
    else:
        memory[1:, :] = 0.0
        products[:, :] = 0.0
    for i in range(n):
        memory[0, i] = p[i]


@compiled
def prove(memory, products, effort, v, dt, proof):  # type: ignore[no-untyped-def]
    """Add the time ``dt`` [s] to the proof of each moving joint that shows the sent torque.

    Args:
        memory, products: sums of :func:`compare_torques`.
        effort: (n,) effort limits [N·m or N].
        v: (n,) velocities [rad/s or m/s].
        proof: (n,) times, changed in place [s].
    """
    for i in range(v.shape[0]):
        xx, xy, yy = memory[3, i], products[i, i], memory[4, i]
        is_driven = xx >= (LEAST_PROOF * effort[i]) ** 2 and abs(v[i]) >= SLOWEST
        if is_driven and xy >= OBEYS * xx and xy * xy >= FIT * xx * yy:
            proof[i] += dt


@compiled
def find_fault(memory, products, effort, v, slowest, proven, bounds):  # type: ignore[no-untyped-def]
    """Return the joint with the best fit of a reversed drive and -1, a swapped pair, or -1 and -1.

    Args:
        memory, products: sums of :func:`compare_torques`.
        effort: (n,) effort limits [N·m or N].
        v, slowest: velocities and least speeds, (n,) each [rad/s or m/s].
        proven: (n,) whether a drive is proven, see the module.
        bounds: see :class:`Evidence`.
    """
    n = v.shape[0]
    found, best = -1, bounds.fit
    for i in range(n):
        xx, xy, yy = memory[3, i], products[i, i], memory[4, i]
        if proven[i] or xx < (LEVEL * effort[i]) ** 2 or abs(v[i]) < slowest[i]:
            continue
        if memory[1, i] * v[i] <= 0.0 or memory[2, i] * v[i] >= 0.0:
            continue
        if not -bounds.largest_ratio * xx <= xy <= -bounds.least_ratio * xx:
            continue
        if xy * xy >= best * xx * yy:
            found, best = i, xy * xy / (xx * yy)
    for i in range(n):
        for j in range(i):
            moves = max(abs(v[i]) / slowest[i], abs(v[j]) / slowest[j]) > 1.0
            is_open = moves and not (proven[i] or proven[j])
            if is_open and is_swapped(memory, products, effort, bounds, i, j):
                return j, i
    return found, -1


@compiled
def is_swapped(memory, products, effort, bounds, i, j):  # type: ignore[no-untyped-def]
    """Return whether two joints show each other's sent torque, and not their own."""
    for a, b in ((i, j), (j, i)):
        xx, yy = memory[3, b], memory[4, a]
        cross, own = products[a, b], products[a, a]
        if yy < (LEVEL * effort[a]) ** 2 or not SWAPPED[0] * xx <= cross <= SWAPPED[1] * xx:
            return False
        if cross * cross < bounds.fit * xx * yy:
            return False
        if own * own >= OWN * memory[3, a] * yy and (own > 0.0 or bounds.is_strict):
            return False
    return True
