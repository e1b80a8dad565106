"""Gains of the drives: prior knowledge, and acceptance of identified gains.

:mod:`~rbd_control.identification.drive_gain_fit` has the equation and the estimate. A gain is
usable if its relative standard error is at most :data:`USABLE_ERROR`. The error of a usable gain is
carried into the thresholds and the weakest push by the parameter ``effort_gain_error``.

In free motion only the torque for gravity and for the inertia of the links determines the gain of a
joint. An error of the masses in the description causes the same relative error of the gain. The
unknown inertia of motor and gear gives no information. A known payload adds a known torque in N·m,
so it determines the gain of each joint that it loads: the last joint only if the centre of mass of
the payload is off its axis, a vertical joint only by acceleration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, RecordingError
from rbd_control.identification.drive_gain_fit import MASS_ERROR, Prior, fit_gains, gain_rows
from rbd_control.identification.motion import RecordedMotion
from rbd_control.wording import listed

Array = NDArray[np.float64]

USABLE_ERROR = 0.25
"""Largest relative standard error of a usable gain: even at the end of a 95 % confidence interval
the residual shows at least half of a push, and the sign of the drive is certain."""
CONFIDENT = 2.0
"""Half width of a 95 % confidence interval in standard errors."""
PAYLOAD_CENTRE_ERROR = 0.002
"""Standard deviation of a stated centre of mass of a payload along each axis [m]."""
CENTRE_UNKNOWN = 0.15
"""Standard deviation of an unstated centre of mass about the origin of the link [m]."""
SIZE = 0.05
"""Assumed radius of gyration of a payload about its centre of mass, right within a factor of two or
so [m]."""


@dataclass(frozen=True)
class KnownGain:
    """A drive gain that is known from a datasheet, the vendor or another identification.

    Raises:
        InputError: for a gain of zero, a negative error, and numbers that are not finite.
    """

    value: float
    """Torque per unit of effort [N·m or N per unit]; negative for a reversed drive."""
    error: float = 0.0
    """Standard error of the gain [N·m or N per unit]; zero for an exact gain."""

    def __post_init__(self) -> None:
        if self.value == 0.0 or not np.isfinite([self.value, self.error]).all() or self.error < 0.0:
            raise InputError(
                f"a drive gain is {self.value:g} ± {self.error:g}; give a finite gain other than 0 "
                f"and an error of 0 or more"
            )


@dataclass(frozen=True, eq=False)
class KnownPayload:
    """Motions with a payload of known mass on the last link.

    Raises:
        InputError: for a mass that is not positive, a negative error, and numbers that are not
            finite.
    """

    motions: Sequence[RecordedMotion]
    """Motions without contact, ``tau`` in the unit of the effort."""
    mass: float
    """Mass of the payload, which the robot description does not include [kg]."""
    mass_error: float = 0.0
    """Standard error of the mass [kg]."""
    centre: tuple[float, float, float] | None = None
    """Centre of mass in the frame of the link that the last joint moves [m]; None if unknown."""

    def __post_init__(self) -> None:
        centre = self.centre or (0.0, 0.0, 0.0)
        if not np.isfinite([self.mass, self.mass_error, *centre]).all():
            raise InputError("mass and centre of a known payload must be finite")
        if self.mass <= 0.0 or self.mass_error < 0.0:
            raise InputError(
                f"the mass of a known payload is {self.mass:g} ± {self.mass_error:g} kg; give a "
                f"mass above 0 and an error of 0 or more"
            )

    @property
    def prior(self) -> Prior:
        """Prior of mass, first and second moments of the payload [kg, kg·m, kg·m²].

        The moments are about the origin of the link that the last joint moves. The standard
        deviation is ``mass_error`` for the mass, :data:`PAYLOAD_CENTRE_ERROR` for a stated centre
        of mass, and :data:`CENTRE_UNKNOWN` for an unstated centre.
        """
        c = np.array(self.centre or (0.0, 0.0, 0.0))
        deviation = CENTRE_UNKNOWN if self.centre is None else PAYLOAD_CENTRE_ERROR
        products = np.outer(c, c) + SIZE**2 * np.eye(3)
        second = self.mass * products[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        spread = SIZE**2 + deviation**2 + 2.0 * deviation * float(np.linalg.norm(c))
        return Prior(
            np.array([self.mass, *(self.mass * c), *second]),
            np.array([self.mass_error, *[self.mass * deviation] * 3, *[self.mass * spread] * 6]),
        )


@dataclass(frozen=True)
class GainEvidence:
    """Data that help to identify drive gains, in addition to the motions without payload."""

    payloads: tuple[KnownPayload, ...] = ()
    """Motions with known payloads."""
    known: Mapping[str, KnownGain] = field(default_factory=dict)
    """Known gains by the name of the joint; they are accepted without a check."""
    accepted_error: float = USABLE_ERROR
    """Largest relative standard error of an accepted gain."""
    mass_error: float = MASS_ERROR
    """Standard deviation of the masses in the robot description, as a fraction of each mass."""


@dataclass(frozen=True)
class DriveGain:
    """The gain of one drive, identified or given, with its error."""

    joint: str
    gain: float
    """Torque per unit of effort [N·m or N per unit]."""
    standard_error: float
    """Standard error in the same unit; infinite if the motions do not determine the gain."""
    is_given: bool
    """Whether the gain was given as a :class:`KnownGain`, not identified."""

    @property
    def relative_error(self) -> float:
        """Standard error divided by the magnitude of the gain; infinite for an infinite error."""
        if not np.isfinite(self.standard_error):
            return np.inf
        return self.standard_error / abs(self.gain)

    @property
    def text(self) -> str:
        """Gain and standard error, as ``10.1 ± 0.2 (2 %)``, or ``(2 %, given)`` if it was given."""
        given = ", given" if self.is_given else ""
        return (
            f"{self.gain:.4g} ± {self.standard_error:.2g} ({100.0 * self.relative_error:.2g} %"
            f"{given})"
        )

    def is_accepted(self, error: float) -> bool:
        """Return whether the gain was given, or its :attr:`relative_error` is at most ``error``."""
        return self.is_given or self.relative_error <= error


class DriveGainError(RecordingError):
    """The motions do not determine the gain of a drive accurately enough.

    Attributes:
        gains: all gains with their standard errors, in the order of the joints.
        accepted_error: largest relative standard error of an accepted gain.
    """

    def __init__(self, gains: Sequence[DriveGain], accepted_error: float) -> None:
        self.gains = tuple(gains)
        self.accepted_error = accepted_error
        refused = [one for one in self.gains if not one.is_accepted(accepted_error)]
        worst_first = sorted(refused, key=lambda one: -one.relative_error)
        named = ", ".join(f"{one.joint} {_percent(one.relative_error)}" for one in worst_first)
        super().__init__(
            f"drive gains not identified (error above {_percent(accepted_error)}): {named}; give "
            f"--payload-recording RECORDING=MASS or --drive-gain JOINT=GAIN"
        )


def _percent(ratio: float) -> str:
    """Return a ratio in percent with two digits; ``>100 %`` for 1 and above."""
    return f"{100.0 * ratio:.2g} %" if ratio < 1.0 else ">100 %"


def drive_gains(
    motions: Sequence[RecordedMotion], model: Model, maximum_gap: float, evidence: GainEvidence
) -> tuple[tuple[DriveGain, ...], tuple[str, ...]]:
    """Identify the torque per unit of effort of each drive, with its sign and standard error.

    Args:
        motions: motions without contact and payload, ``tau`` the effort as published.
        model: the robot as described; its masses are assumed to have the relative standard error
            ``evidence.mass_error``, or a larger error if the motions contradict the description.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].
        evidence: known payloads and gains, and how exact the gains must be.

    Returns:
        The gains in the order of the joints of the model, and warnings for the user.

    Raises:
        InputError: if the joint of a known gain is not in the model.
        DriveGainError: if the relative standard error of a gain exceeds
            ``evidence.accepted_error``; the message gives a remedy.
        RecordingError: if no part of the motions of one load without gaps lasts ten time constants
            of the filter.
    """
    for name in evidence.known:
        if name not in model.joint_names:
            raise InputError(
                f"a gain is given for {name!r}, which is no joint of the model; joints are "
                f"{listed(model.joint_names)}"
            )
    first = model.nv - len(model.joint_names)
    known = {
        first + model.joint_names.index(name): (gain.value, gain.error)
        for name, gain in evidence.known.items()
    }
    recorded = [motions, *(payload.motions for payload in evidence.payloads)]
    rows = [gain_rows(one, model, maximum_gap, evidence.mass_error) for one in recorded]
    fit = fit_gains(rows, [payload.prior for payload in evidence.payloads], known)
    gain, error = _inverted(fit.reciprocal, fit.error)
    found = tuple(
        DriveGain(
            joint,
            gain=float(gain[i]),
            standard_error=known[i][1] if i in known else float(error[i]),
            is_given=i in known,
        )
        for i, joint in enumerate(model.joint_names, first)
    )
    if not all(one.is_accepted(evidence.accepted_error) for one in found):
        raise DriveGainError(found, evidence.accepted_error)
    return found, _doubts(fit.widened)


def _inverted(reciprocal: Array, error: Array) -> tuple[Array, Array]:
    """Return gains and their standard errors (nv,) from reciprocal gains and standard errors.

    The confidence interval of a reciprocal is not symmetric (Fieller 1954). Its wider half counts:
    with the relative error ``r`` of the reciprocal and ``c`` standard errors, the relative error of
    the gain is ``r / (1 - c r)``, and infinite where the interval contains a reciprocal of zero.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        gain, relative = 1.0 / reciprocal, error / np.abs(reciprocal)
        wide = np.where(CONFIDENT * relative < 1.0, relative / (1.0 - CONFIDENT * relative), np.inf)
        return gain, np.where(wide < np.inf, wide * np.abs(gain), np.inf)


WIDE = 2.0
"""Widening of the prior of the masses from which the description is reported to be doubtful."""


def _doubts(widened: float) -> tuple[str, ...]:
    """Return a note if the masses of the description do not fit the currents."""
    if widened < WIDE:
        return ()
    return (
        f"the currents contradict the masses of the description: its errors appear {widened:.1f} "
        f"times as large as expected, and the standard errors of the drive gains include this; "
        f"check the URDF, and whether it contains the hand of the arm",
    )
