"""Promises of the controller, each a function that is checked after every step.

A promise takes the :class:`~stateful.history.Stretch` that the last step of a state machine added,
with one row from before it, and raises ``AssertionError`` if it is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.gains import HELD
from rbd_control.control.kernels import LARGEST_STEP, LEAST_ROOM
from rbd_control.control.limits import LARGEST_SHARE
from rbd_control.control.safe_torque import RATE, STILL
from rbd_control.control.samples import LEAST_SPEED, LEAST_WAY, PERIODS
from rbd_control.control.watches import OVERSPEED_TIME
from rbd_control.dynamics import gravity_torque, mass_matrix
from stateful.history import FLOAT, FOLLOW, HOLD, SAFE, Stretch

Array = NDArray[np.float64]
Promise = Callable[[Stretch], None]

PROMISES: list[Promise] = []

ROUNDING = 1e-7
"""Roundoff of sums of torques of order 100 N·m that are added in another order [N·m]."""

AT_REST = 1e-6
"""Largest desired speed of an arm that has stopped [rad/s or m/s]; in theory it is zero."""

RECOIL = 0.3
"""Time after a push, or a blow on a mechanical stop, in which an arm recoils [s]."""
HARD_SPEED = 2.0
"""Largest speed under control, in velocity limits: the reference stays below 1.2 of them."""

RETREATED = ": retracted along the force on "
"""Part of the reason once a retreat has begun."""
RETREAT_STOPPED = ", and stopped: "
"""Part of the reason once a retreat that does not end the contact is stopped without an order."""

SWINGS, SWING_TIME = 16, 1.0
"""Number of swings of the torque that are too many within a time [s]."""

LATE = 2.5
"""Periods by which a stop may end late: orders come between joint states, times are rounded."""


class BrokenPromise(AssertionError):  # noqa: N818 - a promise is broken, not in error
    """A promise that was not kept; its name is in ``promise``."""

    def __init__(self, promise: str, docstring: str | None, details: str) -> None:
        statement = (docstring or "").partition("\n")[0]
        super().__init__(f"{promise}: {statement} {details}")
        self.promise = promise


def promise(function: Promise) -> Promise:
    """Add ``function`` to the promises that every step is held to."""
    PROMISES.append(function)
    return function


def check(
    stretch: Stretch, ignored: frozenset[str] = frozenset(), only: frozenset[str] = frozenset()
) -> None:
    """Hold a stretch to all promises but the ignored ones, or to some only."""
    for function in PROMISES:
        name = function.__name__
        if name in ignored or (only and name not in only):
            continue
        try:
            function(stretch)
        except AssertionError as error:
            raise BrokenPromise(function.__name__, function.__doc__, str(error)) from error


# --- What goes out on the wire -------------------------------------------------------------------


@promise
def torque_is_finite(s: Stretch) -> None:
    """Every torque sent is finite."""
    assert np.isfinite(s.torque).all(), s.torque[~np.isfinite(s.torque).all(axis=1)][0]


@promise
def torque_keeps_its_limits(s: Stretch) -> None:
    """No command exceeds the effort limit times ``torque_share``.

    For an arm that carries its own weight the limit holds for the sum of command and weight.
    """
    own = s.rig.own_weight(s.seen_q)
    # What the arm adds by itself is no torque that the controller asks for.
    over = np.abs(s.torque + own) - np.maximum(s.rig.largest, np.abs(own))
    fresh = s.torque.any(axis=1) & (s.unusable == 0) & (s.silent == 0)
    fresh[0] = False  # the limits may have been lowered since
    if s.rig.setup.compensated:
        # A refused joint state repeats the last torque, whose sum with the weight kept the limits.
        fresh[1:] &= (s.torque[1:] != s.torque[:-1]).any(axis=1)
    worst = float(over[fresh].max(initial=-1.0))
    assert worst <= ROUNDING, f"{worst:.4g} over {s.rig.largest}"


@promise
def torque_keeps_its_rate(s: Stretch) -> None:
    """No torque changes faster than ``torque_rate``, but for the step to zero and to new limits.

    A torque that drives a joint is dropped at once in mode safe, and where the tank is empty.
    """
    p, rig = s.rig.parameters, s.rig
    sent = ((s.unusable == 0) & (s.silent == 0)) | ~s.torque.any(axis=1)  # else the last stands
    torque, weight = s.torque[sent], rig.own_weight(s.seen_q[sent])
    time = np.clip(s.elapsed[sent], 0.0, p.timeout)[1:, None]
    most = p.for_joints("torque_rate", rig.n) * time + np.abs(np.diff(weight, axis=0))
    # The own weight moves on, too, in rows left out; and stamps that go back leave no time.
    most += 0.1 * rig.setup.compensated
    over = np.abs(np.diff(torque + weight, axis=0)) - (1.0 + 1e-6) * most
    at_limit = np.abs(np.abs(torque + weight) - rig.largest)[1:] < ROUNDING
    over[at_limit | ~torque[1:].any(axis=1, keepdims=True)] = 0.0
    over[s.mode[sent][1:] == SAFE] = 0.0
    if p.tank_capacity:
        beyond = torque + weight - gravity_torque(rig.controller.law.model, s.seen_q[sent])
        over[np.abs(beyond[1:]) < np.abs(beyond[:-1]) + most] = 0.0
    assert over.max(initial=0.0) <= ROUNDING, f"{over.max():.4g} more than that"


@promise
def torque_limits_are_known(s: Stretch) -> None:
    """While the controller is started no joint is without a limit of its torque."""
    if s.rig.history.reasons[-1].startswith("not started"):
        assert not s.torque[-1].any(), "a controller that is not started sends torque"
        return
    assert np.isfinite(s.rig.largest).all(), f"{s.rig.largest}"


@promise
def torque_does_not_swing_for_ever(s: Stretch) -> None:
    """No torque swings 16 times within 1 s from 60 % of its limit to 60 % in the other direction.

    The limit of eight swings within 0.68 s ends such an oscillation in mode safe, where the arm
    comes to rest, even if its loop is too slow for the gains. Swings that an order to stop or to
    retreat demands do not count, so that only those after the last order are compared.
    """
    first = max(int(s.entry[-1]), s.first - round(SWING_TIME / s.rig.period))
    first = max(first, s.rig.orders.stop_row, s.rig.orders.retreat_row)
    torque, time = s.rig.history.column("torque", first), s.rig.history.column("time", first)
    large = np.sign(torque) * (np.abs(torque) > np.maximum(0.6 * s.rig.largest, ROUNDING))
    for joint in range(s.rig.n):
        rows = np.flatnonzero(large[:, joint])
        swings = time[rows[1:]][np.diff(large[rows, joint]) != 0.0]
        within = swings[SWINGS - 1 :] - swings[: max(swings.size - SWINGS + 1, 0)]
        assert (within > SWING_TIME).all(), (
            f"joint {joint} swung {SWINGS} times in {within.min()} s"
        )


# --- Mode safe -----------------------------------------------------------------------------------


def _is_zero(s: Stretch) -> NDArray[np.bool_]:
    """Rows in which no torque was sent, (rows,)."""
    return np.asarray(~s.torque.any(axis=1))


@promise
def no_safe_torque_after_an_unusable_joint_state(s: Stretch) -> None:
    """In mode safe the command is exactly zero from the first unusable joint state on."""
    bad = (s.mode == SAFE) & (s.unusable > 0)
    bad[0] = False
    assert _is_zero(s)[bad].all(), f"{s.torque[bad][-1]} was sent"


@promise
def safe_zero_is_zero_at_rest(s: Stretch) -> None:
    """With ``safe_torque: zero`` the command is exactly zero below the speed STILL.

    When the parameter is set, the last torque holds until the next joint state or ``timeout``.
    """
    if s.rig.parameters.safe_torque == "zero":
        still = (s.mode == SAFE) & (np.abs(s.seen_v) < STILL).all(axis=1) & (s.silent == 0.0)
        still[0] = False
        assert _is_zero(s)[still].all(), f"{s.torque[still][-1]} was sent"


def _braking(s: Stretch) -> NDArray[np.bool_]:
    """Rows with a brake of mode safe for a joint state of this row."""
    rows = (s.mode == SAFE) & (s.unusable == 0) & (s.silent == 0) & (s.frozen == 0)
    rows &= s.torque.any(axis=1) & (not s.rig.distrusts)
    rows[0] = False
    return rows


@promise
def safe_brake_takes_energy_out(s: Stretch) -> None:
    """In mode safe the power of the brake at the measured velocity is never positive.

    Where the weight g is over the torque limit, as much of it as the limit allows counts.
    """
    rows = _braking(s)
    v, brake = s.seen_v[rows], s.torque[rows] - s.rig.safe_weight(s.seen_q[rows])
    power = (v * brake).sum(axis=1) - ROUNDING * np.abs(v).sum(axis=1)
    assert power.max(initial=0.0) <= 0.0, f"{power.max():.4g} W go into the arm"


def _inertia_apart(M: NDArray[np.float64], apart: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the inertia of the brake with joints apart, of which no velocity decays too fast."""
    if not apart.any():
        return M
    W, D = np.linalg.inv(M), np.zeros_like(M)
    rest = np.ix_(~apart, ~apart)
    D[rest] = np.linalg.inv(W[rest])
    D[apart, apart] = 1.0 / np.diag(W)[apart]
    return np.asarray(D / max(np.linalg.eigvals(W @ D).real.max(), 1.0))


@promise
def safe_brake_brakes_every_joint(s: Stretch) -> None:
    """In mode safe every joint is braked that moves and has torque to spare.

    The brake is ``rate M v``. It may be less after a gap, after which the torque may be held for
    ``timeout``, and while it grows. With a filter of the velocity it is another velocity's.
    """
    rig, p = s.rig, s.rig.parameters
    rows = _braking(s) & (s.rate_limited == 0) & (s.elapsed > 0.0)
    if not rows.any() or p.resonance > 0.0:
        return
    q, v, largest = s.seen_q[rows], s.seen_v[rows], rig.largest
    weight = rig.safe_weight(q)
    if rig.setup.compensated:  # the limits apply to the sum
        weight = np.clip(rig.own_weight(q), -largest, largest)
    brake = s.torque[rows] - rig.safe_weight(q)
    rate = min(p.damping_rate or RATE, LARGEST_STEP / (HELD * p.timeout + p.loop_delay))
    rate *= rig.controller.path.brake_share
    room = largest - np.abs(weight)
    bad = (np.abs(v) > 0.05) & (room > 0.05 * largest)
    mass = mass_matrix(rig.controller.model, q)  # nothing that was learned
    # Joints that are braked apart now may have been braked with the others before.
    apart = rig.controller.path.braked_apart
    # A joint whose limit leaves it too little of its brake is braked apart, the others more slowly.
    # The rate is between this one and damping_rate, by the periods of the samples before.
    full, slow = p.damping_rate or RATE, rate
    together = -np.einsum("kij,kj->ki", mass, v)
    left = largest - np.sign(together) * np.clip(weight, -largest, largest)
    kept = left / np.maximum(np.abs(together), ROUNDING)
    alone = [apart | (kept < LEAST_ROOM * each) for each in (slow, full)]
    rate = np.where(alone[0], slow, np.minimum(kept, slow)).min(axis=1, keepdims=True)
    for inertia in (
        mass,
        np.array([_inertia_apart(M, apart) for M in mass]),
        *(
            np.array([_inertia_apart(M, each) for M, each in zip(mass, some, strict=True)])
            for some in alone
        ),
    ):
        wanted = rate * np.einsum("kij,kj->ki", inertia, v)
        least = 0.5 * np.minimum(np.abs(wanted), rig.braking(s.first)[rows])
        bad &= -np.sign(v) * brake < np.minimum(least, 0.1 * room) - ROUNDING
        bad &= wanted * v > 0.0
    assert not bad.any(), f"at {v[bad][0]:.3g} rad/s only {brake[bad][0]:.3g} N·m act"


ENERGY_ROUNDING, ENERGY_SHARE = 0.02, 0.02
"""Energy that errors of the integration may add after a fault [J], and as a share."""

FALLING = 0.05
"""Work of gravity that no motor compensates above which an arm falls [J]."""


@promise
def energy_falls_in_mode_safe(s: Stretch) -> None:
    """In mode safe the kinetic energy never exceeds the energy at the fault and the work since.

    The work is that of gravity which is not compensated, of pushes, and of torque that was sent
    before the fault, or is held while no joint states come. Without this work, no joint is faster
    than 1.2 times its speed at the fault or its velocity limit, but that a push may make one joint
    faster while it brakes the others, and so may the others where the torque is zero because the
    joint states cannot be trusted. Joints of an arm that a push has made faster than its velocity
    limits exchange their energy faster than a weak brake takes it. A mechanical stop returns
    energy, and the brake for a payload that was announced but is not there is too strong.
    """
    rig = s.rig
    is_lighter = rig.is_unknown and rig.payload > 0.0
    if not rig.is_honest or rig.distrusts or not rig.brakes_in_time or is_lighter:
        rig.level = np.nan
        return
    for k in range(1, len(s.mode)):
        is_struck = s.time[k] <= rig.struck_until
        if s.mode[k] != SAFE or s.mode[k - 1] != SAFE or np.isnan(rig.level) or is_struck:
            rig.level, rig.worked = s.energy[k], 0.0
            rig.fault_speed = np.maximum(np.abs(s.v[k]), rig.speed_limit)
        if rig.push.any() or not s.torque[k].any():
            rig.fault_speed = np.maximum(np.abs(s.v[k]), rig.fault_speed)
        above = bool((np.abs(s.v[k]) > rig.speed_limit).any())
        is_pushed = rig.push.any() or s.time[k] < rig.pushed_until + RECOIL
        rig.is_shoved = above and bool(rig.is_shoved or is_pushed)
        rig.worked += max(s.given[k], 0.0)
        most = (1.0 + ENERGY_SHARE) * (rig.level + rig.worked) + ENERGY_ROUNDING
        assert s.energy[k] <= most, f"{s.energy[k]:.4g} J, at the fault {rig.level:.4g} J"
        fast = np.abs(s.v[k]) > 1.2 * rig.fault_speed
        falls = rig.worked > min(FALLING, 0.5 * s.energy[k])  # a light arm is fast with less work
        falls |= (
            rig.setup.elastic is not None
        )  # a spring moves a light link with a heavy one's energy
        assert not fast.any() or falls or rig.is_shoved, f"{s.v[k]} rad/s"


@promise
def only_a_late_brake_is_weakened(s: Stretch) -> None:
    """Without delay in the loop the brake of mode safe keeps its strength.

    An arm that its motors do not hold, or that is pushed, may swing by itself, and elastic gears
    ring when the torque changes at the fault. Under a brake that is weak already, Coriolis torque
    may reverse a joint of an arm without friction.
    """
    rig = s.rig
    if not (rig.is_prompt and rig.is_strong and rig.is_honest) or rig.is_unknown:
        return
    if rig.parameters.safe_torque == "zero" and not rig.setup.compensated:
        return
    if rig.setup.elastic is not None or rig.push.any():
        return
    weaker = (s.brake[1:] < s.brake[:-1]) & (s.brake[:-1] == 1.0)
    weaker &= s.time[1:] > max(rig.late_until, rig.pushed_until) + RECOIL
    assert not weaker.any(), f"{s.brake[1:][weaker][0]:g} of it is left"


@promise
def no_drive_is_distrusted(s: Stretch) -> None:
    """No drive counts as reversed, or as swapped, but in a push: all drives are right."""
    rig = s.rig
    if not rig.is_honest or rig.is_unknown or not rig.brakes_in_time or rig.push.any():
        return
    since = max(float(s.time[0]), rig.pushed_until + RECOIL)
    reason = rig.history.reasons[-1]
    assert not rig.distrusts or rig.distrusted_at <= since, reason


@promise
def only_resume_leaves_safe(s: Stretch) -> None:
    """Only :meth:`resume` ends mode safe."""
    left = (s.mode[:-1] == SAFE) & (s.mode[1:] != SAFE)
    left[:2] &= not s.rig.leaves_safe  # a start has a row without torque first
    assert not left.any(), f"the arm is in mode {s.mode[1:][left][0]:g}"


# --- Joint states that cannot be used ------------------------------------------------------------


@promise
def no_torque_without_joint_states(s: Stretch) -> None:
    """Silence beyond ``timeout``, or ``bad_samples`` unusable ones, lead to safe and zero."""
    p = s.rig.parameters
    bad = s.silent > p.timeout + 0.01 + s.rig.period  # the watchdog looks every 10 ms
    bad |= s.unusable >= p.bad_samples
    bad[0] = False
    assert not s.torque[bad].any(), f"{s.torque[bad][-1]} goes out"
    assert (s.mode[bad] == SAFE).all(), "the mode is not safe"


@promise
def an_unusable_sample_changes_no_torque(s: Stretch) -> None:
    """After an unusable joint state the torque is the last torque or zero."""
    bad = s.unusable[1:] > 0
    same = (s.torque[1:] == s.torque[:-1]).all(axis=1) | ~s.torque[1:].any(axis=1)
    assert same[bad].all(), f"the torque went from {s.torque[:-1][bad]} to {s.torque[1:][bad]}"


@promise
def frozen_motion_is_a_fault(s: Stretch) -> None:
    """Joint states that repeat exactly while they move are a fault in time: zero torque.

    Earlier repetitions may have shown a period of updates of up to ``timeout``.
    """
    p, period = s.rig.parameters, s.rig.period
    frozen = s.frozen > max(p.repeated_time, 2.0 * period) + PERIODS * p.timeout + period
    speed = np.abs(s.seen_v).max(axis=1)
    frozen &= (speed > LEAST_SPEED) & (speed * (s.frozen - p.timeout) > LEAST_WAY)
    frozen[0] = False
    assert (s.mode[frozen] == SAFE).all(), f"{s.seen_v[frozen][0]} repeated without a fault"
    assert not s.torque[frozen].any(), f"{s.torque[frozen][-1]} goes out"


@promise
def no_fault_without_a_cause(s: Stretch) -> None:
    """With correct joint states and without disturbance a strong enough arm has no fault."""
    rig, p = s.rig, s.rig.parameters
    faults = np.flatnonzero((s.mode[1:] == SAFE) & (s.mode[:-1] != SAFE))
    if not faults.size or rig.faulted or not rig.is_strong or p.tank_capacity or not rig.is_prompt:
        return
    k = int(faults[0]) + 1
    cause = s.disturbed[k] or s.unusable[k] or s.frozen[k] or s.silent[k] > 0.0
    entry, now = int(s.entry[k - 1]), s.first + k
    at_rest = np.abs(rig.history.column("v")[entry]).max() < 0.1
    limited = rig.history.column("saturated")[entry : now + 1].any()
    limited |= rig.history.column("rate_limited")[entry : now + 1].any()
    if not cause and at_rest and not limited and not rig.is_unknown:
        raise AssertionError(rig.history.reasons[now])


# --- Motion --------------------------------------------------------------------------------------


def _refused(s: Stretch) -> NDArray[np.int_]:
    """Joint states that may be refused after a jump of the stamps and an order to stop, (rows,).

    The motion waits for each of them. Otherwise the next stamp gives the time that has passed.
    """
    first, jump = s.rig.orders.stop_row, s.rig.orders.jump_row
    if jump < first - s.rig.parameters.bad_samples - 1:
        return np.zeros(len(s.mode), dtype=int)
    first = max(first, jump)
    refused = np.cumsum(s.rig.history.column("unusable", first) != 0)
    since = np.arange(s.first, s.first + len(s.mode)) - first
    return np.concatenate([[0], refused])[np.maximum(since + 1, 0)]


@promise
def a_stop_ends_within_stop_time(s: Stretch) -> None:
    """After an order to stop the desired motion is at rest within ``stop_time``, and stays so."""
    late = s.stopping > s.rig.orders.stop_time + (LATE + _refused(s)) * s.rig.period
    late &= ((s.mode == HOLD) | (s.mode == FOLLOW)) & (s.unusable == 0) & (s.silent == 0)
    late[0] = False
    speed = np.abs(s.v_d[late]).max(initial=0.0)
    assert speed <= AT_REST, f"{s.stopping[late][0]:.3g} s after the order it is {speed:.3g}"


def _stopped_as_it_began(reasons: list[str]) -> bool:
    """Whether a retreat was stopped as it began; then no row shows the rest before it."""
    return any(
        RETREATED in now and RETREAT_STOPPED in now and RETREATED not in before
        for before, now in pairwise(reasons)
    )


@promise
def a_retreat_begins_with_a_stop(s: Stretch) -> None:
    """On a retract order the arm first comes to rest within ``stop_time``."""
    history = s.rig.history
    for row, until in s.rig.due_pauses():
        rows = slice(row, row + int(np.sum(history.column("time", row) <= until)))
        speeds = np.abs(history.column("v_d")[rows]).max(axis=1)
        if _stopped_as_it_began(history.reasons[rows]):
            continue
        if speeds.size and (history.column("mode")[rows] == HOLD).all():
            assert speeds.min() <= AT_REST, f"its desired speed is still {speeds.min():.3g}"


@promise
def a_stopped_arm_comes_to_rest(s: Stretch) -> None:
    """Where torque suffices the arm itself is at rest soon after the desired motion is."""
    rig = s.rig
    if not rig.is_strong or rig.parameters.tank_capacity or rig.is_unknown or not rig.is_prompt:
        return
    late = s.stopping > rig.orders.stop_time + rig.settling_time
    late &= (s.mode == HOLD) & (s.entry <= rig.orders.stop_row)
    late[: max(rig.orders.stop_row - s.first, 1)] = False  # these rows belong to an earlier order
    limited = rig.history.column("saturated", rig.orders.stop_row).any()
    limited |= rig.history.column("rate_limited", rig.orders.stop_row).any()
    if late.any() and not limited:
        speed = np.abs(s.v[late]).max()
        assert speed <= 0.05, f"{s.stopping[late][0]:.3g} s after the order it is {speed:.3g}"


def _charged(s: Stretch) -> NDArray[np.bool_]:
    """Rows in which the law moves an arm that is strong enough, in a loop that is fast enough."""
    rows = ((s.mode == HOLD) | (s.mode == FOLLOW)) & s.rig.is_strong & s.rig.is_prompt
    rows[0] = False
    return rows


@promise
def speed_has_a_hard_bound(s: Stretch) -> None:
    """Under control no joint is faster than twice its velocity limit, or than twice at first.

    A joint that recoils from a push or a mechanical stop may be faster, for as long as it takes to
    be a fault. Measured rotors of elastic gears swing against their links in addition.
    """
    # Joint states that repeat are a fault in time, but until then the torque does not change.
    rows = _charged(s) & (s.frozen == 0.0)
    first = np.abs(s.rig.history.column("v")[s.entry[rows].astype(int)])
    most = HARD_SPEED * np.maximum(s.rig.speed_limit, first.max(axis=1, initial=0, keepdims=True))
    most = most + s.rig.ringing
    fast = (np.abs(s.v[rows]) > most).any(axis=1)
    recoils = s.time[rows] < s.rig.pushed_until + RECOIL
    lasts = fast.sum() * s.rig.period <= OVERSPEED_TIME + s.rig.period
    assert not fast.any() or ((recoils | ~fast).all() and lasts), (
        f"{np.abs(s.v[rows]).max(axis=0)} with limits of {s.rig.speed_limit}"
    )


@promise
def following_is_close(s: Stretch) -> None:
    """Where torque suffices the arm is near its desired position, whole turns not counted.

    A trajectory that began faster than the velocity limits may come back as fast, and the law does
    not follow at such a speed. Between a soft limit and a desired position beyond it, the arm is
    where the torques of both balance; a limit widened for it may have closed behind the arm.
    """
    rig, p = s.rig, s.rig.parameters
    entry = s.entry.astype(int)
    rows = _charged(s) & (s.time - rig.history.column("time")[entry] > rig.settling_time)
    rows &= (np.abs(rig.history.column("v")[entry]) <= rig.speed_limit).all(axis=1)
    if p.tank_capacity or p.adaptive or rig.is_unknown or not rows.any():
        return
    first = int(entry[rows].min())
    limited = rig.history.column("saturated", first).any()
    limited |= rig.history.column("rate_limited", first).any()
    q, q_d, model = s.q[rows], s.q_d[rows], rig.arm.model
    lower, upper = model.lower_limit, model.upper_limit
    margin = np.minimum(p.for_joints("limit_margin", rig.n), LARGEST_SHARE * (upper - lower))
    inside = np.clip(q_d, lower + margin, upper - margin)
    away = q - np.clip(q, np.minimum(q_d, inside), np.maximum(q_d, inside))
    turns = rig.arm.continuous
    away[:, turns] -= 2.0 * np.pi * np.round(away[:, turns] / (2.0 * np.pi))
    assert limited or np.abs(away).max() < 0.1, f"it is {np.abs(away).max(axis=0)} away"


# --- Position limits -----------------------------------------------------------------------------


def _beyond(s: Stretch, q: Array) -> Array:
    """Return the excess of positions over the limits; negative below the lower limits."""
    model = s.rig.arm.model
    return np.maximum(q - model.upper_limit, 0.0) - np.maximum(model.lower_limit - q, 0.0)


@promise
def position_limits_close_behind_the_arm(s: Stretch) -> None:
    """Beyond a position limit the desired motion never leads further out.

    A stop may begin where the arm is, and overshoot by 4/27 of speed times ``stop_time``. One stop
    begins without an order: a retreat that does not end the contact is stopped.
    """
    rig, history = s.rig, s.rig.history
    desired = np.abs(_beyond(s, s.q_d))
    real = np.maximum(np.abs(_beyond(s, s.q)), np.abs(_beyond(s, s.seen_q)))
    if not desired.any() and not real.any():
        rig.outside[:] = 0.0
        return
    speed = np.abs(s.v).max(axis=1)
    overshoot = 0.16 * np.maximum(speed[1:], speed[:-1]) * rig.longest_stop + 0.004
    # A stop passes with the stamps, which run slower while the delay grows; jumps do not count.
    passed = np.clip(np.diff(s.stamp), 0.0, np.diff(s.time))
    for k in range(1, len(desired)):
        rig.stopping_for -= passed[k - 1]
        led = s.mode[k] in (HOLD, FOLLOW)
        now = s.first + k
        begins = k <= 2 or history.goals[now] != history.goals[now - 1] or not led
        reason = history.reasons[now]
        begins |= reason != history.reasons[now - 1] and RETREAT_STOPPED in reason
        if history.goals[now] == "moving" and led and not s.disturbed[k]:
            begins = False  # a trajectory leads back in, and has no reason to lead out
        if begins:
            rig.outside = np.maximum(rig.outside, real[k] + overshoot[k - 1])
            rig.stopping_for = rig.longest_stop
        if led:
            allowed = rig.outside
            if history.goals[now] in ("moving", "reached"):
                # A trajectory that begins in motion overshoots, returns to where it was given, and
                # stays there. It was planned with limits that were open as far as the arm was.
                for place in (rig.asked, rig.asked_at):
                    allowed = np.maximum(allowed, np.abs(_beyond(s, place)))
            leads_out = desired[k] > desired[k - 1]
            worst = float((desired[k] - allowed)[leads_out].max(initial=0.0))
            # The limit leaves 1 mrad to the arm, the spline another, and the arm moves in between.
            # An arm too weak for its weight sinks, and its limits open and close as it does.
            assert worst <= (0.0025 if rig.is_strong else 0.02), f"by {worst:.3g}"
            if rig.stopping_for < 0.0:  # a stop is over, which may swing in and back
                rig.outside = np.minimum(rig.outside, np.maximum(desired[k], real[k]))


@promise
def no_joint_is_driven_beyond_its_limit(s: Stretch) -> None:
    """Under control no joint goes further beyond its limit than it must to brake."""
    rig = s.rig
    rows = _charged(s)
    entry = s.entry[rows].astype(int)
    first = np.abs(_beyond(s, rig.history.column("q")[entry]))
    speed = np.abs(rig.history.column("v")[entry]).max(axis=1, keepdims=True)
    away = np.abs(_beyond(s, s.q[rows])) - first - 0.3 * speed
    if rig.parameters.tank_capacity == 0.0 and not rig.is_unknown:
        worst = float(away.max(initial=0.0))
        assert worst <= 0.03, f"by {worst:.3g}"


@promise
def no_torque_leads_out_of_limits(s: Stretch) -> None:
    """At rest beyond a position limit, the torque less the gravity torque does not push outwards.

    In a loop whose delay is too long for the gains the torque swings both ways, until that is a
    fault.
    """
    beyond = _beyond(s, s.q)
    if s.rig.is_unknown or not s.rig.is_prompt or not beyond.any():
        return
    rows = (s.mode != SAFE) & (s.unusable == 0) & (s.silent == 0) & beyond.any(axis=1)
    rows &= s.rig.quiet_time(s.first) > 0.2
    rows[0] = False
    if not rows.any():
        return
    # Of a weight beyond the torque limit, as much as the limit allows counts.
    largest, q = s.rig.largest, s.seen_q[rows]
    torque = s.torque[rows] + s.rig.own_weight(q)
    # An adaptive law may have learned a weight at any time of the step.
    models = s.rig.earlier_model, s.rig.controller.law.model
    weights = (np.clip(gravity_torque(model, q), -largest, largest) for model in models)
    out = [(torque - weight) * np.sign(beyond[rows]) for weight in weights]
    worst = float(np.minimum(*out).max())
    assert worst < 0.5 + 0.02 * s.rig.largest.max(), f"{worst:.3g} N·m do"


# --- Energy, estimates, words --------------------------------------------------------------------


@promise
def energy_is_within_the_tank(s: Stretch) -> None:
    """With a tank, the energy put into the arm in a time t is at most capacity + refill t."""
    rig, p = s.rig, s.rig.parameters
    if not p.tank_capacity or p.adaptive or not rig.tank_is_known:
        rig.tank = p.tank_capacity
        return
    # An arm that is too weak for its weight falls: no energy that the controller gives it.
    weight = np.clip(gravity_torque(rig.arm.model, s.q), -rig.largest, rig.largest)
    motors = np.clip(s.torque + rig.own_weight(s.q), -rig.arm.strength, rig.arm.strength)
    pushing = motors - weight - p.friction(rig.n).torque(s.v)
    # The safe torque is the weight and a brake, or zero, under which the arm falls by itself.
    pushing[s.mode == SAFE] = 0.0
    work = (pushing[:-1] * np.diff(s.q, axis=0)).sum(axis=1)
    # What a change of speed adds within a period cannot be foreseen.
    change = np.abs(pushing[:-1] * np.diff(s.v, axis=0)).sum(axis=1) * rig.period
    rig.unforeseen = max(rig.unforeseen, 2.0 * float(change.max()))
    unforeseen = rig.unforeseen + 0.01
    for k, energy in enumerate(work):
        odd = s.disturbed[k] or s.unusable[k] or s.frozen[k] or s.silent[k]
        rig.tank = p.tank_capacity if odd else rig.tank + p.tank_refill * rig.period - energy
        rig.tank = min(rig.tank, p.tank_capacity)
        assert rig.tank >= -unforeseen, f"it stands at {rig.tank:.3g} J, not {-unforeseen:.3g}"


@promise
def learned_mass_has_bounds(s: Stretch) -> None:
    """A learned mass is positive, and adds no more than a payload can: ``largest_payload_mass``."""
    adaptive = s.rig.controller.law.adaptive
    if adaptive is None:
        return
    links = adaptive.estimates.links
    for estimate in links:
        assert 0.0 < estimate.mass < np.inf, estimate
    most = s.rig.parameters.largest_payload_mass * len(links)
    assert adaptive.payload <= 1.01 * most, f"{adaptive.payload:.3g} kg were learned"


@promise
def words_fit_the_mode(s: Stretch) -> None:
    """Only modes safe and float have a reason, and only mode follow has a moving goal."""
    history = s.rig.history
    for k in np.flatnonzero(s.silent[1:] == 0.0) + 1:
        mode, now = s.mode[k], s.first + int(k)
        reason, goal = history.reasons[now], history.goals[now]
        assert reason or mode not in (SAFE, FLOAT), f"no reason for mode {mode:g}"
        assert (mode == FOLLOW) == (goal == "moving"), f"goal {goal} in mode {mode:g}"
        assert goal != "paused" or mode == HOLD, f"goal {goal} in mode {mode:g}"
