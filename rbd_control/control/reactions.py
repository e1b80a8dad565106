"""Reactions to contact, and orders to the arm: one class each.

**The motion of a touched link away from the contact, for the reaction ``retract``.**

The place of the contact on the link is not known. The motion is computed for the origin of the link
or, if the joints hardly move the origin along the force, for the origin of a next joint, which is
the other end of the link. The origin of an upper arm, for example, lies on the axes of the joints
that move the upper arm. While the other end moves along the force and the origin not against it, no
point between them moves against the force.

**Supervision of a retreat: it must end the contact, not press against something else.**

The place and the direction of a contact are estimates, and behind the arm may be another obstacle.
A retreat that does not move the link away presses with the stiffness of the law, and so would the
hold at its end.

**Adding a reaction.**

A class in :data:`REACTIONS` is a choice of the parameter ``contact_reaction``; with ``order`` it is
also an order of :meth:`Modes.order` and a service of the node. To add one, write the
class, with parameters of its own as a base of :class:`ReactionParameters`, and name it in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot, inf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.detector_verdict import FORCE_AGE, FORCE_WAIT, DetectorVerdict
from rbd_control.control.motion import DesiredMotion, Place
from rbd_control.control.trajectory import DesiredState, JointLimits, Trajectory
from rbd_control.control.waypoints import TrajectoryPoint
from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.dynamics.model_arrays import PRISMATIC
from rbd_control.errors import RbdControlError, TrajectoryError
from rbd_control.parameters import Parameters, parameter

if TYPE_CHECKING:
    from rbd_control.control.limits import SoftLimits

Array = NDArray[np.float64]

LARGEST_TURN = 0.5
"""Largest motion of a joint in one retreat [rad or m]."""

LEAST_SHARE = 0.02
"""Smallest share of the requested distance that an end of the link must move along the force.

The link's origin must not move against the force by more than this share, if the motion is computed
for another end.
"""

ENOUGH = 0.5
"""Share of the requested distance with which no further end of the link is considered."""

_DAMPING = 0.05
"""Damping of the least-squares inverse of the Jacobian [m]."""

_PEAK = 1.875
"""Peak speed of a quintic from rest to rest, in mean speeds."""

_PARTS = 8
"""Number of equal parts of a motion after each of which its way along the force is computed."""


def retreat(
    model: Model,
    limits: JointLimits,
    start: DesiredState,
    link: str,
    force: Array,
    distance: float,
    time: float,
) -> Trajectory:
    """Return a joint motion that moves ``link`` along ``force`` and ends at rest.

    The joint motion is ``Jᵀ (J Jᵀ + d² 1)⁻¹ distance force / |force|``, the damped least-squares
    inverse of the linear Jacobian J of the link's origin with d = 0.05 m, by at most
    :data:`LARGEST_TURN`. If a position limit shortens it, the motion without the limiting joints is
    computed as well, and the motion with the longest way along the force is chosen. If this way is
    shorter than :data:`ENOUGH` of the distance, the same is done for the origins of the next joints
    in place of the link's origin. The motion ends before its end of the link would move against the
    force, or the link's origin by more than :data:`LEAST_SHARE` of the distance, as computed at
    eight points of the motion.

    Args:
        model: the arm.
        limits: position and speed limits to keep.
        start: the present desired state, from which the motion begins.
        link: the touched link.
        force: (3,) force on the link, in world axes [N]; neither zero nor infinite.
        distance: requested distance of the end along the force [m]. The actual distance differs
            because of the damping, the limits and the curvature of the path.
        time: shortest duration [s]; longer if the speed limits require it.

    Raises:
        InputError: for an unknown link.
        TrajectoryError: if no end of the link can move along the force by :data:`LEAST_SHARE` of
            the distance within the position limits.
    """
    q, wanted = start.q_d, (distance / hypot(*force)) * force
    change, best = np.zeros(model.nv), LEAST_SHARE * distance
    for end, free in _ends(model, link):
        found, way = _motion(model, limits, q, (link, end), free, wanted)
        if way > best:
            change, best = found, way
        if best >= ENOUGH * distance:
            break
    if not change.any():
        raise TrajectoryError(
            "the joints cannot move the ends of the link along the force within the position limits"
        )
    duration = max(time, float((_PEAK * np.abs(change) / limits.velocity_limit).max()))
    zero = [0.0] * model.nv
    point = TrajectoryPoint((q + change).tolist(), zero, zero, duration)
    return Trajectory.from_points(model.joint_names, model.joint_names, [point], start=start)


def _ends(model: Model, link: str) -> Iterator[tuple[str, Array]]:
    """Yield the links whose origins are the ends of a link, and the joints that move each end.

    The first is the link itself; the others are the links that the next joints move. The joints are
    (nv,), 1 for each joint that may be used and 0 for a prismatic next joint, which moves the
    origin behind it but not the link.
    """
    yield link, np.ones(model.nv)
    body, arrays = model.link_index(link), model.arrays
    for row, end in zip(model.joint_row.values(), model.body_links, strict=True):
        if body >= 0 and arrays.parent[row] == body:
            free = np.ones(model.nv)
            if arrays.joint_type[row] == PRISMATIC:
                free[arrays.dof[row]] = 0.0
            yield end, free


def _motion(
    model: Model,
    limits: JointLimits,
    q: Array,
    links: tuple[str, str],
    free: Array,
    wanted: Array,
) -> tuple[Array, float]:
    """Return a joint motion (nv,) that moves an end of a link, and the way of this end [m].

    Args:
        model: the arm.
        limits: position limits to keep.
        q: positions at the start, (nv,) [rad or m].
        links: the touched link, and the link whose origin is the end to move.
        free: 1 for the joints that may move, 0 for the others, (nv,).
        wanted: (3,) motion of the end, in world axes [m].
    """
    change, best = np.zeros(model.nv), 0.0
    J = frame_jacobian(model, q, links[1])[3:] * free
    for _ in range(model.nv):
        damped = J @ J.T + _DAMPING**2 * np.eye(3)
        step, hindered = _within(J.T @ np.linalg.solve(damped, wanted), q, limits)
        part, way = _progress(model, q, step, links, wanted)
        if way > best:
            change, best = part * step, way
        if hindered < 0:
            break
        J[:, hindered] = 0.0
    return change, best


def _within(step: Array, q: Array, limits: JointLimits) -> tuple[Array, int]:
    """Scale a motion to the limits; return it and the joint whose position limit shortens it most.

    The joint is -1 if no position limit shortens the motion.
    """
    step = step * min(1.0, LARGEST_TURN / max(np.abs(step).max(), 1e-9))
    room = np.where(step > 0.0, limits.upper_limit - q, q - limits.lower_limit)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(step == 0.0, np.inf, np.maximum(room, 0.0) / np.abs(step))
    j = int(share.argmin())
    return (share[j] * step, j) if share[j] < 1.0 else (step, -1)


def _progress(
    model: Model, q: Array, step: Array, links: tuple[str, str], wanted: Array
) -> tuple[float, float]:
    """Return the part of a motion in which an end moves in a direction, and by how much [m].

    Args:
        model: the arm.
        q, step: positions at the start, and their change, (nv,) each [rad or m].
        links: the touched link, and the link whose origin is the end.
        wanted: (3,) motion of the end, in world axes [m].
    """
    distance = hypot(*wanted)
    passed = q + (np.arange(_PARTS + 1) / _PARTS)[:, None] * step
    places = [frame_placement(model, passed, each)[:, :3, 3] for each in links]
    origin, end = ((place - place[0]) @ wanted / distance for place in places)
    against = np.diff(end) <= 0.0
    if links[0] != links[1]:
        against |= origin[1:] < -LEAST_SHARE * distance
    last = int(against.argmax()) if against.any() else _PARTS
    return last / _PARTS, float(end[last])


PATIENCE = 0.5
"""Time from the begin of a retreat until which the contact must have ended [s].

A detector lowers its flag when the residual has decayed and stayed low, by default after 0.2 s.
"""

LAG = 0.2
"""Share of the whole way by which the arm may lag behind the retreat while the contact lasts.

On the shipped arm a free retreat lags by up to 0.12 with a friction of 0.9 N·m on each joint that
nothing compensates.
"""


class RetreatWatch:
    """Watches one retreat at a time, from its begin to its end, and for :data:`PATIENCE` at least.

    Args:
        verdict: the verdict of the contact detector.
    """

    def __init__(self, verdict: DetectorVerdict) -> None:
        self._verdict = verdict
        self._until: float | None = None
        self._way = np.zeros(0)
        self._listens = False

    @property
    def watches(self) -> bool:
        """Whether a retreat is being watched."""
        return self._until is not None

    def begin(self, stamp: float, now: float, way: Array) -> None:
        """Watch a retreat from now on.

        Args:
            stamp: stamp of the last joint state [s].
            now: its arrival on the steady clock [s].
            way: displacement of the joints by the whole retreat, (nv,) [rad or m].
        """
        self._until, self._way = stamp + PATIENCE, way
        self._listens = self._verdict.fresh(now)

    def end(self) -> None:
        """Watch no longer: another motion or another mode has taken the place of the retreat."""
        self._until = None

    def finds(self, stamp: float, now: float, lag: Array, moves: bool) -> str:
        """Return why the retreat must stop, or an empty text; a reason ends the supervision.

        It must stop if the detector still reports contact after :data:`PATIENCE`, or while the arm
        lags behind by more than :data:`LAG` of the way, and if a detector that was heard when the
        retreat began falls silent, because it is then unknown whether the contact has ended.

        Args:
            stamp: stamp of the last joint state [s].
            now: its arrival on the steady clock [s].
            lag: desired less measured position, (nv,) [rad or m].
            moves: whether the desired motion has not ended.
        """
        if self._until is None:
            return ""
        is_late, why = stamp >= self._until, ""
        if self._verdict.contact(now):
            if is_late:
                why = f"the contact has lasted for {PATIENCE:g} s"
            elif lag @ self._way > LAG * (self._way @ self._way):
                why = "the arm cannot move away"
        elif self._listens and not self._verdict.fresh(now):
            why = self._verdict.missing(now)
        if why or (is_late and not moves):
            self._until = None
        return why


class Measured(Protocol):
    """What a reaction reads of :class:`~rbd_control.control.samples.SampleJudge`."""

    stamp: float
    """Stamp of the last valid sample [s]."""
    now: float
    """Its arrival on the steady clock [s]."""
    q: Array
    """(nv,) measured position [rad or m]."""


class Arm(Protocol):
    """What a reaction knows of an arm and may do with it: :class:`~rbd_control.control.Modes`.

    Attributes:
        motion, verdict: desired motion, verdict of the detector.
    """

    motion: DesiredMotion
    verdict: DetectorVerdict

    @property
    def model(self) -> Model:
        """The arm."""

    @property
    def soft(self) -> SoftLimits:
        """The soft position limits."""

    @property
    def parameters(self) -> Any:
        """The parameters of the controller, with those of the reaction."""

    @property
    def samples(self) -> Measured:
        """The measured state."""

    def hold(self, reason: str, again: bool = False, then: Reaction | None = None) -> None:
        """Stop and hold; ``again``: at the measured position, also if the arm is held already.

        The method :meth:`Reaction.at_rest` of the reaction ``then`` is called after the stop, until
        :meth:`stay`.
        """

    def float_(self, reason: str) -> None:
        """Compensate gravity only."""

    def slow(self, reason: str, factor: float) -> None:
        """Reduce the speed of trajectories to a share."""

    def stop(self) -> None:
        """Stop at the measured position."""

    def stay(self) -> None:
        """End the wait of a reaction after the stop."""

    def require_hold(self, place: Place) -> None:
        """Raise a TrajectoryError if the motors cannot hold the arm on the rest of a trajectory."""

    def go(self, way: Trajectory) -> Array:
        """Move along a trajectory; return its displacement, (nv,) [rad or m]."""

    def explain(self, text: str, after: str = "; ") -> None:
        """Add a text to the reason of the mode."""


class Reaction:
    """A reaction to contact of one arm; this one does nothing.

    Args:
        arm: the arm, whose mode the reaction changes.
    """

    name: ClassVar[str] = "none"
    """Value of ``contact_reaction``, and name of the order and its service."""
    does: ClassVar[str] = ""
    """What the arm does, for the description of ``contact_reaction``."""
    ends: ClassVar[str] = ""
    """What the arm does, for the sender of a trajectory that the reaction ends; empty: it goes on.

    While the contact lasts, a reaction that ends trajectories lets none begin or continue.
    """
    order: ClassVar[str] = ""
    """Reason of the mode after an order; empty: it cannot be ordered."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def begin(self, reason: str) -> None:
        """Execute an order.

        Args:
            reason: reason of the mode.

        Raises:
            InputError: in mode safe.
        """

    def react(self) -> None:
        """React to a contact: as by an order, unless a class says otherwise."""
        self.begin("contact")

    def at_rest(self) -> None:
        """Continue after a stop of :meth:`Arm.hold`; called for each sample until it goes on."""

    def check(self) -> None:
        """Supervise a motion of the reaction; called for each sample of an arm in mode hold."""

    def end(self) -> None:
        """End a motion of the reaction, because another motion or mode takes its place."""


class Hold(Reaction):
    """Stop and stay; a trajectory is interrupted."""

    name = "hold"
    does = "stop and stay"
    ends = "the arm holds"
    order = "held by request"

    def begin(self, reason: str) -> None:
        """Stop and hold."""
        self._arm.hold(reason)

    def react(self) -> None:
        """Stop and hold; an arm that is held already gives way to the contact."""
        self._arm.hold("contact", again=True)


class Float(Reaction):
    """Compensate gravity only."""

    name = "float"
    does = "gravity compensation only"
    ends = "the arm yields"
    order = "floating by request"

    def begin(self, reason: str) -> None:
        """Compensate gravity only, until resumed; the trajectory is cancelled."""
        self._arm.float_(reason)


@dataclass(frozen=True)
class RetractParameters(Parameters):
    """Parameters of :class:`Retract`."""

    HEADING = "Stops and reactions to contact"

    retract_distance: float = parameter(
        0.05, "distance by which the touched link retracts", unit="m", above=0.0, upper=0.5
    )
    retract_time: float = parameter(
        0.5,
        "shortest duration of a retraction; longer if the speed limits require it",
        unit="s",
        above=0.0,
        upper=10.0,
        expert=True,
    )


class Retract(Reaction):
    """Stop, move the touched link along the force on it, and hold.

    The force is the last estimate that was no older than ``FORCE_AGE`` when the order came, or
    arrives during the stop or within ``FORCE_WAIT`` after it; without an estimate the arm stays
    where it stopped. A retreat that does not end the contact stops, see :class:`RetreatWatch`.
    """

    name = "retract"
    does = "stop, move along the estimated force, stay"
    ends = "the arm retracts"
    order = "retracting by request"

    def __init__(self, arm: Arm) -> None:
        super().__init__(arm)
        self._ordered = -inf  # time of the last order [s]
        self._watch = RetreatWatch(arm.verdict)

    def begin(self, reason: str) -> None:
        """Stop, and retract afterwards."""
        self._arm.hold(reason, again=True, then=self)
        self._ordered = self._arm.samples.stamp

    def at_rest(self) -> None:
        """Retract along the force, or wait for it: it arrives after the flag."""
        arm, p = self._arm, self._arm.parameters
        found = arm.verdict.force(self._ordered, FORCE_AGE)
        if found is None and arm.motion.overtime < FORCE_WAIT:
            return
        arm.stay()
        if found is None:
            arm.explain("not retracted, because no contact force is known", ": ")
            return
        try:
            way = retreat(
                arm.model,
                arm.soft.now(),
                arm.motion.state(),
                found.link,
                found.force,
                p.retract_distance,
                p.retract_time,
            )
            arm.require_hold(Place(way, 0.0))
        except (RbdControlError, np.linalg.LinAlgError) as error:
            arm.explain(f"cannot retract along the force on {found.link}: {error}", ": ")
            return
        self._watch.begin(arm.samples.stamp, arm.samples.now, arm.go(way))
        arm.explain(f"retracted along the force on {found.link}", ": ")

    def check(self) -> None:
        """Stop a retreat that does not end the contact, so that the arm stops pressing.

        The arm is held at its measured position, also if the desired motion has already ended.
        """
        if not self._watch.watches:
            return
        arm = self._arm
        samples, motion = arm.samples, arm.motion
        lag = motion.desired().q_d - samples.q
        why = self._watch.finds(samples.stamp, samples.now, lag, motion.moving)
        if why:
            arm.stop()
            arm.explain(f"stopped: {why}", ", and ")

    def end(self) -> None:
        """Supervise the retreat no longer."""
        self._watch.end()


@dataclass(frozen=True)
class SlowParameters(Parameters):
    """Parameters of :class:`Slow`."""

    HEADING = "Stops and reactions to contact"

    slow_factor: float = parameter(
        0.2, "speed factor of trajectories in the reaction slow", lower=0.01, upper=1.0
    )


class Slow(Reaction):
    """Continue at ``slow_factor`` of the speed, also in later trajectories, until resumed.

    In a latched mode the next :meth:`Modes.resume` ends the latch only; the second one restores
    full speed.
    """

    name = "slow"
    does = "continue at slow_factor"
    order = "slowed by request"

    def begin(self, reason: str) -> None:
        """Reduce the speed."""
        self._arm.slow(reason, self._arm.parameters.slow_factor)


REACTIONS: tuple[type[Reaction], ...] = (Reaction, Hold, Float, Retract, Slow)
"""All reactions, by which everything else knows them."""

ORDERS = tuple(kind.name for kind in REACTIONS if kind.order)
"""Names of the reactions that can be ordered."""

ENDING = frozenset(kind.name for kind in REACTIONS if kind.ends)
"""Names of the reactions that end a trajectory."""


@dataclass(frozen=True)
class ReactionParameters(RetractParameters, SlowParameters):
    """Parameters of stops and of reactions to contact."""

    HEADING = "Stops and reactions to contact"

    stop_time: float = parameter(
        0.1,
        "duration of a stop; a stream may change a joint's speed by its limit in this time",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    contact_reaction: str = parameter(
        "hold",
        "reaction to a rising contact flag, until resumed: "
        + ", ".join(f"'{kind.name}'" + f" ({kind.does})" * bool(kind.does) for kind in REACTIONS),
        choices=tuple(kind.name for kind in REACTIONS),
    )
    require_detector: bool = parameter(
        False,
        "start and resume only while a contact detector publishes verdicts, and hold the arm when "
        "they stop",
    )
