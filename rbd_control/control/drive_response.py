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
against a push, or without effect. The torque must have been sent for longer than the delay of the
loop: a brake that has only begun shows nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.joint_states.checks import NO_JOINT, PASSED, Array, Check, Finding, Memory, Records

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

LARGE = 2.0 * LEVEL
"""Least torque of a dead drive, likewise."""

ACTS_AFTER = 2.0
"""Sample periods after which, and after the delay of the loop, a joint shows the sent torque."""

FRESH = 0.06
"""Time after a fault in which the bounds of :data:`SUSPECT` apply [s]."""


SWAPPED = (0.3, 1.5)
"""Ratios of the torque that a joint shows to the sent torque of the swapped joint."""

OWN = 0.5
"""R² of the fit to its own sent torque with which a joint is not swapped, if it shows this torque,
or perhaps pushed, if it shows the opposite."""


DRIVEN = 0.015
"""Time for which a joint must be driven by the torque of another to be probed [s]."""


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


class WrongDrive(Check):
    """Compares the torque of each joint's motion with the sent torque, by the rule of this module.

    Settings of a joint: ``effort``, its effort limit [N·m or N], and ``slowest``, the least speed
    at which it counts as reversed under control [rad/s or m/s]. Setting of the arm: ``delay``, of
    its loop, the parameter ``loop_delay`` [s].
    """

    JOINT = {
        "momentum": 0.0,  # at the last new joint state [N·m·s or N·s]
        "impulse": 0.0,  # integral of the sent torque since then [N·m·s or N·s]
        "shown": 0.0,  # filtered torque of the motion [N·m or N]
        "sent": 0.0,  # filtered command [N·m or N]
        "shown_square": 0.0,  # mean of its square
        "sent_square": 0.0,
        "proof": 0.0,  # time for which the joint has shown the sent torque [s]
        "due": 0.0,  # time since large sent torque should act; negative before [s]
    }
    ARM = {
        "compared": 0.0,  # time over which torques were compared [s]
        "held": 0.0,  # time of repeated joint states [s]
        "other": NO_JOINT,  # the joint whose motor is swapped with the other one
    }

    @staticmethod
    @inlined
    def test(motion, settings, memory):  # type: ignore[no-untyped-def]
        """Return a joint whose drive is certainly reversed or swapped; take the sample in any case.

        Args:
            motion: the last joint state and commands, :class:`~.watches.Observed`; in mode safe no
                drive is certainly wrong.
            settings, memory: of the checks.
        """
        compare_torques(motion, settings, memory)
        if motion.is_safe:
            return PASSED
        found, memory.arm[0].other = find_fault(motion.v, settings, memory, motion.certain)
        return found

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the joints and what to check."""
        return named_fault(found.names, found.joint, int(found.memory.arm["other"][0])).reason


def wrong_drive(
    names: tuple[str, ...], v: Array, settings: Records, memory: Memory, bounds: Evidence
) -> DriveFault | None:
    """Return the joints whose drives act against their commands or are swapped, or None.

    Args:
        names: names of the joints.
        v: (nv,) measured velocities [rad/s or m/s].
        settings, memory: of :class:`WrongDrive`.
        bounds: bounds of the fit.
    """
    i, j = find_fault(v, settings, memory, bounds)
    return None if i < 0 else named_fault(names, i, j)


def named_fault(names: tuple[str, ...], i: int, j: int) -> DriveFault:
    """Return the fault of a joint ``i``, or of two joints unless ``j`` is negative."""
    if j >= 0:
        return DriveFault(
            (i, j),
            f"the motors of {names[i]} and {names[j]} are swapped: each moves as "
            f"the other should; check the wiring and the order of the joints",
        )
    return DriveFault(
        (i,),
        f"reversed or dead drive: {names[i]} accelerates against its torque; check the "
        f"wiring, the sign and the order of the motors",
    )


def dead_drive(
    names: tuple[str, ...], v: Array, settings: Records, memory: Memory
) -> DriveFault | None:
    """Return a joint that moves against its torque as if none was sent, or None.

    Its drive is dead or has too little torque for the inertia of its rotor, or it is pushed.
    Arguments as of :func:`wrong_drive`.
    """
    if memory.arm["compared"][0] < WINDOW:
        return None
    joint, sent = memory.joint, memory.joint["sent_square"]
    is_dead = np.sqrt(sent) >= LARGE * settings.joint["effort"]
    is_dead &= (joint["sent"] * v < 0.0) & (np.abs(v) >= SLOWEST) & (joint["due"] >= 0.0)
    is_dead &= joint["shown_square"] <= DEAD**2 * sent
    if not is_dead.any():
        return None
    i = int(np.argmax(is_dead * sent))
    what = "dead drive" if joint["proof"][i] >= PROOF else "reversed or dead drive"
    return DriveFault(
        (i,),
        f"{what}, or a push: {names[i]} moves against its torque as if none was sent; "
        f"check its power and its mode, and the order of the motors",
        is_certain=False,
    )


def driven_by_another(
    v: Array, joints: Iterable[int], others: Iterable[int], settings: Records, memory: Memory
) -> bool:
    """Return whether one of some joints, which get no torque, is driven by that of another joint.

    It moves with the torque that is sent to a joint that may be dead: their motors are swapped.

    Args:
        v: (nv,) measured velocities [rad/s or m/s].
        joints: indices of the joints without torque.
        others: indices of the joints that may be dead.
        settings, memory: of :class:`WrongDrive`.
    """
    for i in joints:
        joint, effort = memory.joint[i], settings.joint["effort"][i]
        is_driven = joint["shown"] * v[i] > 0.0 and abs(joint["shown"]) >= LARGE * effort
        if not is_driven or abs(v[i]) < SLOWEST or abs(joint["sent"]) >= LEVEL * effort:
            continue
        for j in others:
            xx, xy = memory.joint["sent_square"][j], memory.pairs[i, j]
            is_shown = SWAPPED[0] * xx <= xy <= SWAPPED[1] * xx
            if is_shown and xy * xy >= FIT * xx * joint["shown_square"]:
                return True
    return False


@inlined
def compare_torques(motion, settings, memory):  # type: ignore[no-untyped-def]
    """Update the sums of the fit, and the proofs of drives, with a sample.

    ``pairs`` of the memory has the means of the shown torque of a joint (row) times the sent torque
    of a joint (column).
    """
    joint, arm, products, n, dt = (
        memory.joint,
        memory.arm[0],
        memory.pairs,
        motion.q.size,
        motion.dt,
    )
    if motion.repeats and dt > 0.0:
        arm.held += dt
        for i in range(n):
            joint[i].impulse += dt * motion.sent[i]
        return
    time = dt + arm.held
    continues = 0.0 < time <= LONGEST_PERIOD and arm.compared > 0.0
    if not 0.0 < time <= LONGEST_PERIOD:
        arm.compared = 0.0
    model = unpacked(motion.commanded)
    p, CTv, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, motion.q, motion.v, new_sweep(model.parent.shape[0]), p, CTv, g)
    smooth = 1.0 - np.exp(-time / SMOOTHING)
    share = 1.0 - np.exp(-time / max(WINDOW, PERIODS * time))
    for i in range(n):
        each, sent = joint[i], motion.sent[i]
        if arm.held > 0.0:
            sent = (each.impulse + dt * sent) / time
            each.impulse = 0.0
        if sent * each.sent > 0.0 and abs(sent) >= LARGE * settings.joint[i].effort:
            each.due += time
        else:
            each.due = -settings.arm[0].delay - ACTS_AFTER * time
        if continues:
            shown = (p[i] - each.momentum) / time - CTv[i] + g[i]
            each.shown += smooth * (shown - each.shown)
            each.sent += smooth * (sent - each.sent)
            each.sent_square += share * (each.sent * each.sent - each.sent_square)
            each.shown_square += share * (each.shown * each.shown - each.shown_square)
        else:
            each.shown = each.sent = each.sent_square = each.shown_square = 0.0
        each.momentum = p[i]
    arm.held = 0.0
    arm.compared += max(time, 1e-9)
    for i in range(n):
        for j in range(n):
            before = products[i, j] if continues else 0.0
            products[i, j] = before + share * (joint[i].shown * joint[j].sent - before)
        xx, xy, yy = joint[i].sent_square, products[i, i], joint[i].shown_square
        is_driven = xx >= (LEAST_PROOF * settings.joint[i].effort) ** 2
        is_driven = is_driven and abs(motion.v[i]) >= SLOWEST and arm.compared >= WINDOW
        if is_driven and xy >= OBEYS * xx and xy * xy >= FIT * xx * yy:
            joint[i].proof += time


@compiled
def find_fault(v, settings, memory, bounds):  # type: ignore[no-untyped-def]
    """Return the joint with the best fit of a reversed drive and -1, a swapped pair, or -2 and -1.

    Args:
        v: (n,) velocities [rad/s or m/s].
        settings, memory: of :class:`WrongDrive`.
        bounds: see :class:`Evidence`.
    """
    n, joint, products = v.shape[0], memory.joint, memory.pairs
    found, best = PASSED, bounds.fit
    if memory.arm[0].compared < WINDOW:
        return PASSED, NO_JOINT
    for i in range(n):
        each, effort = joint[i], settings.joint[i].effort
        slowest = settings.joint[i].slowest if bounds.is_strict else SLOWEST
        xx, xy, yy = each.sent_square, products[i, i], each.shown_square
        if each.proof >= PROOF or xx < (LEVEL * effort) ** 2 or abs(v[i]) < slowest:
            continue
        if each.shown * v[i] <= 0.0 or each.sent * v[i] >= 0.0:
            continue
        if not -bounds.largest_ratio * xx <= xy <= -bounds.least_ratio * xx:
            continue
        if xy * xy >= best * xx * yy:
            found, best = i, xy * xy / (xx * yy)
    for i in range(n):
        for j in range(i):
            fast_i = abs(v[i]) / (settings.joint[i].slowest if bounds.is_strict else SLOWEST)
            fast_j = abs(v[j]) / (settings.joint[j].slowest if bounds.is_strict else SLOWEST)
            is_open = max(fast_i, fast_j) > 1.0 and max(joint[i].proof, joint[j].proof) < PROOF
            if is_open and is_swapped(i, j, settings, memory, bounds):
                return j, i
    return found, NO_JOINT


@inlined
def is_swapped(i, j, settings, memory, bounds):  # type: ignore[no-untyped-def]
    """Return whether two joints show each other's sent torque, and not their own."""
    joint, products = memory.joint, memory.pairs
    for a, b in ((i, j), (j, i)):
        xx, yy, effort = joint[b].sent_square, joint[a].shown_square, settings.joint[a].effort
        cross, own = products[a, b], products[a, a]
        if yy < (LEVEL * effort) ** 2 or not SWAPPED[0] * xx <= cross <= SWAPPED[1] * xx:
            return False
        if cross * cross < bounds.fit * xx * yy:
            return False
        if own * own >= OWN * joint[a].sent_square * yy and (own > 0.0 or bounds.is_strict):
            return False
    return True
