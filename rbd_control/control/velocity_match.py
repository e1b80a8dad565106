"""Detection of velocities that contradict the positions, in a running controller.

:mod:`rbd_control.identification.delays` does the same for recordings, over longer times.

A velocity of the wrong sign turns damping into a torque along the motion, and so can a velocity of
another joint. A frozen velocity does not damp the motion, and a frozen position hides it from the
position feedback. In each case the motion of the positions differs from the integral of the
velocities. With a fading memory of :data:`MEMORY`, the joint states of a joint are contradictory if
for every T up to :data:`FILTER`::

    |sum(dq) - integral(v dt) - T sum(dv)| > velocity_mismatch + SHARE * path + DELAY * |dq / dt|

where the integral over an interval is the value nearest to ``dq`` between those of the two
velocities over ``dt`` and over the mean interval, the path is the sum of the larger of ``|dq|`` and
this integral, and the speed is the largest recent one.

A first-order filter of the velocity with time constant T follows ``dq/dt = v + T dv/dt`` and
differs from the positions by exactly ``T sum(dv)``. After a push the velocity of a real arm changes
by several rad/s in a few milliseconds, which such a filter must not turn into a contradiction.
``velocity_mismatch`` covers the bias of velocities, the share their scale, and ``DELAY`` a delay
that no filter explains. A driver that stamps its messages late, in a burst, makes a long interval
and then short ones, in which the arm moves for the mean interval. After a gap, in which samples
were lost and the velocity is unknown, the sums restart.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from rbd_control.dynamics.compiled import inlined
from rbd_control.joint_states.checks import NO_JOINT, PASSED, Check, Finding
from rbd_control.joint_states.plausibility import whole_turns

MEMORY = 0.03
"""Time constant of the fading memory [s]; at least :data:`PERIODS` periods."""

PERIODS = 4.0
"""Least time constant of the memory in sample periods.

At 30 Hz the velocities of a real arm are half a period late.
"""

_AVERAGING = 0.01
"""Least weight of a new interval in the mean interval; the first ones have equal weights."""

GAP_PERIODS = 3.0
"""Intervals longer than this number of periods, and than :data:`LEAST_GAP`, are gaps."""

LEAST_GAP = 0.005
"""Time in which the velocity of a light wrist under full torque remains known well enough [s]."""

LONGEST_INTERVAL = 0.1
"""Longest time between two samples that are compared [s]."""

AFTERMATH = 0.1
"""Time after a gap in which lost or late joint states are named as a cause [s]."""

SHARE = 0.3
"""Share of the path by which position and velocity may differ.

A velocity of the wrong sign makes a difference of twice the path, a frozen position or velocity a
difference of the whole path.
"""

FILTER = 0.025
"""Largest time constant of a filter of the velocities that is no contradiction [s].

Velocities of a UR are 7 ms late, velocities of a Panda 18 ms. A velocity of the wrong sign changes
against the motion of its positions, which no filter explains.
"""

DELAY = 0.003
"""Delay of the velocities that is accepted for any change of the velocity [s]."""

DISTRUST = 0.5
"""Time without contradiction after which velocities are trusted again [s].

At a reversal of the motion, and at rest, the velocities of a swinging arm match by chance.
"""


class Contradictory(Check):
    """Finds velocities of an arm that contradict its positions, by the rule of this module.

    A sample with the stamp of the last sample is not compared. After a gap, after
    :data:`LONGEST_INTERVAL`, and when the stamps have gone back, the comparison restarts, and a
    contradiction continues. It ends after :data:`DISTRUST` without another one. For samples that
    repeat the last one, and so are no measurements, it ends that time after the last measurement.
    """

    JOINT = {
        "measured_q": 0.0,
        "measured_v": 0.0,
        "deviation": 0.0,  # changes of the position minus the integral of the velocity [rad or m]
        "path": 0.0,  # length of the path [rad or m]
        "change": 0.0,  # changes of the velocity [rad/s or m/s]
        "pace": 0.0,  # largest speed of the positions [rad/s or m/s]
    }
    ARM = {
        "measured": nan,  # stamp of the last sample that was compared
        "contradicts": False,
        "contradicting": 0,  # the joint
        "contradicted": 0.0,  # stamp of the last contradiction, or start of the comparison
        "intervals": 0,
        "mean_interval": 0.0,
        "measured_period": 0.0,  # mean interval without gaps
        "lost_for": 0.0,  # length of the last gap [s]
        "lost_until": -inf,
        "difference": 0.0,  # deviation at the beginning of the contradiction
        "over": 0.0,  # path at the beginning of the contradiction
        "lost_before": 0.0,  # length of a gap just before it [s]
    }
    is_final = True

    @staticmethod
    @inlined
    def test(sample, settings, memory):  # type: ignore[no-untyped-def]
        """Compare a sample with the previous ones; return the joint of a present contradiction."""
        arm, stamp, tolerance = memory.arm[0], sample.stamp, settings.arm[0].velocity_mismatch
        dt = stamp - arm.measured  # NaN at first
        if arm.repeats and not arm.is_overdue:
            if not dt <= DISTRUST:
                arm.contradicts = False
            return arm.contradicting if arm.contradicts else PASSED
        if tolerance <= 0.0:
            arm.contradicts = False
        if dt == 0.0:
            return arm.contradicting if arm.contradicts else PASSED
        arm.measured = stamp
        j = _compare(sample, settings, memory, dt)
        for i in range(sample.q.shape[0]):
            memory.joint[i].measured_q, memory.joint[i].measured_v = sample.q[i], sample.v[i]
        if j >= 0:
            arm.contradicted = stamp
            if not arm.contradicts:
                arm.contradicts, arm.contradicting = True, j
                arm.difference, arm.over = abs(memory.joint[j].deviation), memory.joint[j].path
                arm.lost_before = arm.lost_for if stamp - arm.lost_until < AFTERMATH else 0.0
        elif j == NO_JOINT and stamp - arm.contradicted > DISTRUST:
            arm.contradicts = False
        return arm.contradicting if arm.contradicts else PASSED

    @staticmethod
    def sentence(found: Finding) -> str:
        """Name the joint, what differs by how much, and what to check."""
        difference, path, gap = found.memory.arm[["difference", "over", "lost_before"]][0]
        check = "its sign, unit and order, the stamps, and velocity_mismatch"
        lost = ""
        if gap:
            lost = f"joint states were lost or came late, for {gap:.3g} s: "
            check = f"the machine and the network, then {check}"
        return (
            f"{lost}the velocity of {found.name} contradicts its positions: its integral "
            f"differs from their change by {difference:.2g} rad or m over a path of "
            f"{path:.2g}; check {check}"
        )


@inlined
def _compare(sample, settings, memory, dt):  # type: ignore[no-untyped-def]
    """Return the joint whose velocity contradicts its positions most, or ``NO_JOINT``.

    ``PASSED`` means that nothing was compared.

    Args:
        sample, settings, memory: as of the test.
        dt: time since the previous sample [s]; NaN without one.
    """
    joint, arm, tolerance = memory.joint, memory.arm[0], settings.arm[0].velocity_mismatch
    n, compares = sample.q.shape[0], True
    if not 0.0 < dt <= LONGEST_INTERVAL:
        arm.contradicted, compares = sample.stamp, False
    else:
        is_gap = arm.intervals > 0 and dt > max(GAP_PERIODS * arm.measured_period, LEAST_GAP)
        arm.intervals += 1
        weight = max(_AVERAGING, 1.0 / arm.intervals)
        arm.mean_interval += weight * (dt - arm.mean_interval)
        # Lost messages are no long period.
        counted = dt if arm.intervals == 1 else min(dt, 2.0 * arm.measured_period)
        arm.measured_period += weight * (counted - arm.measured_period)
        if is_gap:
            arm.lost_for, arm.lost_until, compares = dt, sample.stamp, False
    if not compares:
        for i in range(n):
            joint[i].deviation = joint[i].path = joint[i].change = joint[i].pace = 0.0
        return PASSED
    fading, mean = np.exp(-dt / max(MEMORY, PERIODS * dt)), arm.mean_interval
    found, worst = NO_JOINT, 1.0
    for i in range(n):
        each, v = joint[i], sample.v[i]
        way = sample.q[i] - each.measured_q
        way -= whole_turns(way, settings.joint[i].turn)
        # In a collision any speed between the two may have moved the joint.
        slow, fast = min(v, each.measured_v), max(v, each.measured_v)
        least, most = min(slow * dt, slow * mean), max(fast * dt, fast * mean)
        expected = min(max(way, least), most)
        each.deviation = fading * each.deviation + way - expected
        each.path = fading * each.path + max(abs(way), abs(expected))
        each.change = fading * each.change + v - each.measured_v
        each.pace = max(fading * each.pace, abs(way) / max(dt, mean))
        filtered = FILTER * each.change
        explained = min(max(each.deviation, min(filtered, 0.0)), max(filtered, 0.0))
        allowed = tolerance + SHARE * each.path + DELAY * each.pace
        ratio = abs(each.deviation - explained) / allowed if tolerance > 0.0 else 0.0
        if ratio > worst:
            found, worst = i, ratio
    return found
