"""Reactions to contact, and orders to the arm: one class each.

A class in :data:`REACTIONS` is a choice of the parameter ``contact_reaction``; with ``order`` it is
also an order of :meth:`PassivityController.order` and a service of the node. To add one, write the
class, with parameters of its own as a base of :class:`ReactionParameters`, and name it in the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.detector_verdict import FORCE_AGE, FORCE_WAIT, DetectorVerdict
from rbd_control.control.motion import Motion, Place
from rbd_control.control.retreat_along_force import retreat
from rbd_control.control.retreat_watch import RetreatWatch
from rbd_control.control.trajectory import Trajectory
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]


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
        model: the arm.
        motion, verdict: desired motion, verdict of the detector.
        soft: soft position limits, :class:`~rbd_control.control.soft_limits.SoftLimits`.
        parameters: parameters of the controller, with those of the reaction.
        reason: reason of the mode, to which a reaction adds.
        pending: the reaction whose :meth:`Reaction.at_rest` is called after the present stop.
    """

    model: Model
    motion: Motion
    verdict: DetectorVerdict
    soft: Any
    parameters: Any
    reason: str
    pending: Reaction | None
    require_hold: Callable[[Place], None]

    @property
    def samples(self) -> Measured:
        """The measured state."""

    def hold(self, reason: str, again: bool = False) -> None:
        """Stop and hold; ``again``: at the measured position, also if the arm is held already."""

    def float_(self, reason: str) -> None:
        """Compensate gravity only."""

    def slow(self, reason: str, factor: float) -> None:
        """Reduce the speed of trajectories to a share."""

    def stop(self) -> None:
        """Stop at the measured position."""

    def go(self, way: Trajectory) -> Array:
        """Move along a trajectory; return its displacement, (nv,) [rad or m]."""


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
        """Continue after a stop, if ``Arm.pending`` is this reaction; called for each sample."""

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
        self._arm.hold(reason, again=True)
        self._arm.pending, self._ordered = self, self._arm.samples.stamp

    def at_rest(self) -> None:
        """Retract along the force, or wait for it: it arrives after the flag."""
        arm, p = self._arm, self._arm.parameters
        found = arm.verdict.force(self._ordered, FORCE_AGE)
        if found is None and arm.motion.overtime < FORCE_WAIT:
            return
        arm.pending = None
        if found is None:
            arm.reason += ": not retracted, because no contact force is known"
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
            arm.reason += f": cannot retract along the force on {found.link}: {error}"
            return
        self._watch.begin(arm.samples.stamp, arm.samples.now, arm.go(way))
        arm.reason += f": retracted along the force on {found.link}"

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
            arm.reason += f", and stopped: {why}"

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
