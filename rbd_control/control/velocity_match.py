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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.compiled import compiled
from rbd_control.joint_states.plausibility import TURN, whole_turns

Array = NDArray[np.float64]

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


class VelocityMatch:
    """Detects velocities of one arm that contradict its positions, by the rule of this module.

    Args:
        names: names of the joints.
        continuous: indices of the joints whose positions may differ by whole turns.
    """

    def __init__(self, names: tuple[str, ...], continuous: NDArray[np.int64]) -> None:
        n = len(names)
        self._names, self._turn = names, np.zeros(n)
        self._turn[continuous] = TURN
        self._sums = RecentMotion(*np.zeros((4, n)))
        self.reset()

    def reset(self) -> None:
        """Forget all samples; the next one is not compared."""
        self._last: tuple[float, Array, Array] | None = None
        self._contradiction, self._since = "", 0.0
        self._intervals, self._mean, self._period = 0, 0.0, 0.0
        self._gap, self._gap_end = 0.0, -np.inf
        self._forget_motion()

    def _forget_motion(self) -> None:
        for row in self._sums:
            row.fill(0.0)

    def lasting(self, stamp: float) -> str:
        """Return the contradiction that lasts at ``stamp`` [s], see :meth:`take`, or an empty text.

        Call it for a sample that repeats the last one, and so is no measurement. The contradiction
        ends :data:`DISTRUST` after the last measurement.
        """
        if self._last is None or stamp - self._last[0] > DISTRUST:
            self._contradiction = ""
        return self._contradiction

    def take(self, stamp: float, q: Array, v: Array, tolerance: float) -> str:
        """Compare a sample with the previous samples.

        A sample with the stamp of the last sample is not compared. After a gap, after
        :data:`LONGEST_INTERVAL`, and when the stamps have gone back, the comparison restarts, and a
        contradiction continues.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            tolerance: ``velocity_mismatch`` [rad or m]; with 0 no velocity is a contradiction.

        Returns:
            The reason if the velocity of a joint contradicts its positions, also until
            :data:`DISTRUST` has passed without a contradiction; otherwise an empty text.
        """
        if tolerance <= 0.0:
            self._contradiction = ""
        last, dt = self._last, 0.0
        if last is not None:
            dt = stamp - last[0]
            if dt == 0.0:
                return self._contradiction
        self._last = stamp, q, v
        if last is None or not 0.0 < dt <= LONGEST_INTERVAL:
            self._forget_motion()
            self._since = stamp
            return self._contradiction
        is_gap = self._intervals > 0 and dt > max(GAP_PERIODS * self._period, LEAST_GAP)
        self._intervals += 1
        weight = max(_AVERAGING, 1.0 / self._intervals)
        self._mean += weight * (dt - self._mean)
        # Lost messages are no long period.
        counted = dt if self._intervals == 1 else min(dt, 2.0 * self._period)
        self._period += weight * (counted - self._period)
        if is_gap:
            self._gap, self._gap_end = dt, stamp
            self._forget_motion()
            return self._contradiction
        fading = float(np.exp(-dt / max(MEMORY, PERIODS * dt)))
        j = contradictory(
            (q, v, last[1], last[2]),
            (dt, self._mean),
            fading,
            self._turn,
            tolerance,
            self._sums,
        )
        if j < 0:
            if stamp - self._since > DISTRUST:
                self._contradiction = ""
            return self._contradiction
        self._since = stamp
        if not self._contradiction:
            difference, path = abs(self._sums.deviation[j]), self._sums.path[j]
            check = "its sign, unit and order, the stamps, and velocity_mismatch"
            lost = ""
            if stamp - self._gap_end < AFTERMATH:
                lost = f"joint states were lost or came late, for {self._gap:.3g} s: "
                check = f"the machine and the network, then {check}"
            self._contradiction = (
                f"{lost}the velocity of {self._names[j]} contradicts its positions: its integral "
                f"differs from their change by {difference:.2g} rad or m over a path of "
                f"{path:.2g}; check {check}"
            )
        return self._contradiction


class RecentMotion(NamedTuple):
    """Sums and largest values with a fading memory, (nv,) each.

    Attributes:
        deviation: changes of the position minus the integral of the velocity [rad or m].
        path: length of the path [rad or m].
        change: changes of the velocity [rad/s or m/s].
        pace: largest speed of the positions [rad/s or m/s].
    """

    deviation: Array
    path: Array
    change: Array
    pace: Array


@compiled
def contradictory(
    samples: tuple[Array, Array, Array, Array],
    times: tuple[float, float],
    fading: float,
    turn: Array,
    tolerance: float,
    recent: RecentMotion,
) -> int:
    """Return the index of the joint whose velocity contradicts its positions most, or -1.

    Args:
        samples: positions and velocities of a sample, then of the previous sample, (nv,) each [rad
            or m, rad/s or m/s].
        times: time between the samples, and mean time between two samples [s].
        fading: factor by which sums and largest values decay in this time.
        turn: (nv,) period of the position [rad]; 0 for a position that does not wrap.
        tolerance: deviation that is accepted on a path of any length [rad or m]; 0: any.
        recent: the recent motion, changed in place.
    """
    found, worst = -1, 1.0
    q, v, last_q, last_v = samples
    dt, mean = times
    deviation, path, change, pace = recent
    for i in range(q.shape[0]):
        way = q[i] - last_q[i]
        way -= whole_turns(way, turn[i])
        # In a collision any speed between the two may have moved the joint.
        slow, fast = min(v[i], last_v[i]), max(v[i], last_v[i])
        least, most = min(slow * dt, slow * mean), max(fast * dt, fast * mean)
        expected = min(max(way, least), most)
        deviation[i] = fading * deviation[i] + way - expected
        path[i] = fading * path[i] + max(abs(way), abs(expected))
        change[i] = fading * change[i] + v[i] - last_v[i]
        pace[i] = max(fading * pace[i], abs(way) / max(dt, mean))
        filtered = FILTER * change[i]
        explained = min(max(deviation[i], min(filtered, 0.0)), max(filtered, 0.0))
        allowed = tolerance + SHARE * path[i] + DELAY * pace[i]
        ratio = abs(deviation[i] - explained) / allowed if tolerance > 0.0 else 0.0
        if ratio > worst:
            found, worst = i, ratio
    return found
