"""The checks of each sample that lead to a fault or a hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.chatter import Chatter
from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.drive_response import (
    CERTAIN,
    FRESH,
    LIKELY,
    RUNAWAY,
    RUNAWAY_SPEED,
    SLOWEST,
    SPEED_SHARE,
    SUSPECT,
    DriveFault,
    DriveResponse,
)
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.overshoot import Overshoot
from rbd_control.control.overspeed import Overspeed
from rbd_control.control.samples import SampleJudge
from rbd_control.control.standing_joint import StandingJoint
from rbd_control.dynamics import mass_matrix
from rbd_control.errors import InputError

Array = NDArray[np.float64]


class Watches:
    """Checks samples, torque and verdicts, and switches the mode after a failed check.

    A fault is a switch to the mode safe. Call :meth:`set_parts` before all other methods.

    Args:
        joints: number of joints.
        samples, motion, verdict: parts of the controller that the checks read. A check that finds
            frozen or silent joint states marks ``samples`` as lost.
        modes: the mode, which a failed check changes.
    """

    def __init__(
        self,
        joints: int,
        samples: SampleJudge,
        motion: Motion,
        verdict: DetectorVerdict,
        modes: Modes,
    ) -> None:
        self._samples, self._motion, self._verdict = samples, motion, verdict
        self._modes = modes
        self._overspeed, self._chatter = Overspeed(), Chatter(joints)
        self._drives, self._overshoot = DriveResponse(joints), Overshoot(joints)
        self._fastest = np.full(joints, np.inf)
        self._named: set[int] = set()
        """Joints whose drives are known not to obey."""
        self._doubted: set[int] = set()
        """Joints whose drives may be dead, since the last fault."""
        self._since_fault = 0.0
        self._standing = StandingJoint(joints)

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use the parts for new parameters from the next sample on."""
        self._parameters, self._limits = parts.parameters, parts.limits
        self._tolerances, self._law, self._model = parts.tolerances, parts.law, parts.model
        self._slowest = SPEED_SHARE * parts.limits.assumed_velocity
        self._drives.set_parameters(parts.model, parts.limits.effort, parts.parameters)

    def gap(self) -> None:
        """Switch to a fault if the time since the previous sample exceeds ``timeout``.

        Both the difference of the stamps and the difference of the arrivals are compared.
        """
        samples, timeout = self._samples, self._parameters.timeout
        # After a stop of the process its queue has samples without a gap, but no torque was sent.
        if samples.wait > timeout:
            self._modes.fault(f"no joint states for {samples.wait:.3g} s")
        elif samples.dt > timeout:
            self._modes.fault(f"stamps jumped by {samples.dt:.3g} s")

    def speed(self) -> None:
        """Switch to a fault if a joint has been too fast for too long, see :class:`Overspeed`."""
        fast = self._overspeed.fault(self._samples.dt, self._samples.v, self._limits)
        if fast:
            self._modes.fault(fast)

    def tracking(self) -> None:
        """Switch to a fault if a joint exceeds ``tracking_limit`` in the modes hold and follow."""
        if self._modes.tracks:
            lost = self._tolerances.lost(self._samples.q, self._modes.desired.q_d)
            if lost:
                self._modes.fault(lost)

    def reset(self) -> None:
        """Forget speeds and torques before a start."""
        self._overspeed.reset()
        self._chatter.reset()
        self._drives.reset()
        self._named.clear()
        self._doubted.clear()
        self._standing.forget()

    def chatter(self, torque: Array) -> None:
        """Switch to a fault if the torque oscillates in another mode than safe.

        The fault, see :class:`Chatter`, also discards what the adaptive law has learned.

        Args:
            torque: (nv,) torque of the motors until this sample [N·m or N]. Call the method before
                the desired state advances, so that it belongs to this torque.
        """
        if self._modes.mode == "safe":
            self._chatter.reset()
            return
        samples = self._samples
        acceleration = self._modes.desired.a_d
        demanded = acceleration  # zero at rest and in float
        if acceleration.any():
            demanded = mass_matrix(self._model, samples.q) @ acceleration
        swings = self._chatter.fault(samples.now, torque, demanded, self._limits)
        if swings:
            if self._law.adaptive is not None:
                swings += "; the estimates of the adaptive law are discarded"
            self._law.discard_estimates()
            self._modes.fault(swings)

    def drives(self, sent: Array) -> None:
        """Take a sample for the comparison of drives, and switch to a fault if one is reversed.

        Args:
            sent: (nv,) command until this sample [N·m or N].
        """
        samples = self._samples
        self._drives.take(samples.dt, samples.q, samples.v, sent)
        if self._modes.mode == "safe":
            return
        self._since_fault = 0.0
        self._doubted.clear()
        found = self._drives.fault(CERTAIN, samples.v, self._slowest)
        if found is not None:
            self._modes.fault(found.reason)

    def brake(self, is_braking: bool, v_f: Array) -> tuple[DriveFault | None, bool]:
        """Check the brake of mode safe for the last sample.

        Args:
            is_braking: whether the last command was a brake.
            v_f: (nv,) filtered velocities of the last command [rad/s or m/s].

        Returns:
            The drives that cannot be trusted, or None; and whether the brake overshoots.
        """
        samples = self._samples
        if self._since_fault == 0.0:
            fast = np.maximum(self._limits.assumed_velocity, np.abs(samples.v))
            self._fastest = RUNAWAY_SPEED * fast
        bounds = SUSPECT if self._since_fault <= FRESH else LIKELY
        self._since_fault += samples.dt
        found = self._drives.fault(bounds, samples.v, np.full(len(samples.v), SLOWEST))
        if found is None:
            found = self._drives.fault(RUNAWAY, samples.v, self._fastest)
            if found is not None and self._named.issuperset(found.joints):
                found = None  # it falls without torque
            elif found is not None and not self._doubted.issuperset(found.joints):
                # Another motor may drive this joint, so none is trusted.
                found = found._replace(joints=tuple(range(len(samples.v))))
            elif found is None and bounds is SUSPECT and not self._named:
                found = self._drives.dead(samples.v)
        if found is not None:
            (self._named if found.is_certain else self._doubted).update(found.joints)
        # An arm that falls with a joint that is not braked gains energy.
        if not is_braking or self._named or self._doubted:
            self._overshoot.reset()
            return found, False
        return found, self._overshoot.found(samples.dt, mass_matrix(self._model, samples.q), v_f)

    def finds_standing(self, s: Array, withheld: Array) -> bool:
        """Switch to a fault if a joint does not move, see :class:`StandingJoint`.

        Args:
            s: (nv,) velocity error of the law for the last sample [rad/s or m/s].
            withheld: (nv,) torque of the last sample that limits have withheld [N·m or N].

        Returns:
            Whether there is such a joint.
        """
        samples, standing = self._samples, self._standing
        if not self._modes.tracks:
            standing.forget()
            return False
        driven = standing.driven(samples.stamp, samples.q, samples.v, s, samples.repetition.longest)
        if driven is None:
            return False
        torque = self._law.damping(samples.q) * driven
        torque -= np.clip(torque, -np.abs(withheld), np.abs(withheld))
        fault = standing.fault(torque, self._limits, self._parameters.repeated_torque_share)
        if fault:
            self._modes.fault(fault)
        return bool(fault)

    def finds_silence(self, now: float) -> bool:
        """Switch to a fault if no valid sample came for ``timeout``; return whether none came.

        Args:
            now: time on the steady clock [s].
        """
        if not self._samples.silent(now):
            return False
        self._samples.lose()
        self._modes.fault(f"no joint states for {now - self._samples.now:.3g} s")
        return True

    def unsent(self, age: float) -> None:
        """Switch to a fault if no torque could be published for more than ``timeout``.

        After half of ``repeated_time`` the check for a joint that does not move restarts, because
        the arm did not receive the torque.

        Args:
            age: time since a torque was last published [s].
        """
        parameters = self._parameters
        if age > 0.5 * parameters.repeated_time:
            self._standing.forget()
        if age > parameters.timeout:
            self._modes.fault(f"no torque could be published for {age:.3g} s")

    def detector(self, now: float) -> None:
        """Hold the arm if ``require_detector`` is true and the last verdict has expired.

        Only an arm in mode follow, or in mode hold without a latch or during a retreat, gets the
        order to hold, which also ends the retreat.

        Args:
            now: time on the steady clock [s].
        """
        modes = self._modes
        if not self._parameters.require_detector or self._verdict.fresh(now):
            return
        moves = not modes.latched or modes.is_retreating
        if modes.mode == "follow" or (modes.mode == "hold" and moves):
            modes.hold(self._verdict.missing(now))

    def require_verdict(self, what: str, now: float) -> None:
        """Raise an error if ``require_detector`` is true and the last verdict has expired.

        Args:
            what: the action that needs the verdict, such as ``start``, for the message.
            now: time on the steady clock [s].

        Raises:
            InputError: naming the action and the age of the verdict.
        """
        missing = self._verdict.missing(now)
        if self._parameters.require_detector and missing:
            raise InputError(f"cannot {what}: require_detector is true, and {missing}")

    def detector_warning(self, now: float) -> str:
        """Return a warning if the detector is needed and silent, otherwise an empty text.

        The detector is needed for any ``contact_reaction`` but none, and with ``require_detector``.
        It is silent if the last verdict is too old, or none has come yet.

        Args:
            now: time on the steady clock [s].
        """
        reaction, missing = self._parameters.contact_reaction, self._verdict.missing(now)
        if missing and reaction != "none":
            return f"{missing}: no {reaction} on contact"
        return missing if self._parameters.require_detector else ""
