"""Check of unit and sign of each joint's effort against the torque of the model.

Over motions without contact the effort of a joint is regressed on the torque ``need`` of the model
together with friction::

    effort = scale need + friction(v)

Efforts that are declared to be torques must have a scale near one; the gains of drives that
publish currents come from :mod:`~rbd_control.identification.drive_gains`. If the torque of the
model is too small, the sign of friction determines the sign of the effort: friction never drives a
joint.

A payload that the model lacks has the effect of a scale above one on the joints that carry it.
Therefore a payload is fitted as well, to all joints at once, and a scale is reported only if no
payload explains the efforts equally well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.observers import LARGEST
from rbd_control.identification.delays import velocity_fits, wrong_velocities
from rbd_control.identification.mismatch import unit_payloads
from rbd_control.identification.motion import SLOW, RecordedMotion, implausible, in_range
from rbd_control.identification.regression import filtered_columns, filtered_external

Array = NDArray[np.float64]

VAGUE = 0.2
"""Relative standard deviation above which a scale counts as unknown."""
SCALES = (0.6, 1.6)
"""Smallest and largest scale that friction, motion or a small payload can explain."""
REVERSED = -0.3
"""Scale below which the sign of the effort is wrong."""
CERTAIN = 5.0
"""Ratio of the RMS error with scale one to the RMS error with the fitted scale, above which
calibration refuses the efforts."""
SUSPECT = 1.2
"""The same ratio of errors, above which the effort of a joint in another unit is reported."""
SIGNIFICANT = 10.0
"""Number of standard deviations from which the sign of a friction coefficient is certain."""
PAYLOAD_EXPLAINS = 1.5
"""Largest ratio of a joint's RMS error with a payload to its RMS error with the fitted scale at
which the payload counts as an explanation."""
DEAD_SHARE = 0.1
"""Largest accepted fraction of efforts that are exactly zero while the joint moves."""
STRAY_SHARE = 0.01
"""Largest fraction of implausible samples that are left out; more are refused."""
STRAY_FACTOR = 1000.0
"""Ratio of an effort to the joint's median magnitude above which it is implausible."""
SHAPE = 4
"""Index of the shape of friction that the efforts are regressed on: a velocity scale of 0.05."""


@dataclass(frozen=True)
class EffortScale:
    """Comparison of the efforts of one joint with the torque of the model: unit and sign.

    The efforts are fitted by ``scale`` times the torque of the model, plus friction.
    """

    joint: str
    scale: float
    """Effort as a multiple of the torque of the model; near 1 if unit and sign are right."""
    is_known: bool
    """Whether the standard deviation of ``scale`` is below 20 % of ``scale``."""
    ratio: float
    """RMS error with a scale of one, divided by the RMS error with the fitted ``scale``."""
    drives: bool
    """Whether the friction in the effort certainly acts along the motion and would drive the joint,
    which is impossible."""
    is_payload: bool
    """Whether the payload that fits all joints best explains this joint about as well as ``scale``
    does: its RMS error is at most :data:`PAYLOAD_EXPLAINS` times as large."""

    @property
    def is_reversed(self) -> bool:
        """Whether the effort has the wrong sign.

        Either ``scale`` is known and below :data:`REVERSED`, and ``ratio`` exceeds
        :data:`CERTAIN`; or :attr:`drives` is true, and ``scale`` is unknown or below
        :data:`REVERSED`.
        """
        certain = self.is_known and self.scale < REVERSED
        return (certain and self.ratio > CERTAIN) or (
            self.drives and (certain or not self.is_known)
        )

    @property
    def is_odd(self) -> bool:
        """Whether the effort appears to be in another unit.

        ``scale`` is then known and out of :data:`SCALES`, and no payload explains it.
        """
        beyond = self.is_known and not SCALES[0] <= self.scale <= SCALES[1]
        return beyond and not self.is_payload

    @property
    def text(self) -> str:
        """Problem of the effort and its remedy, for the user; empty for a correct effort.

        A problem is :attr:`is_reversed`, or :attr:`is_odd` with a ``ratio`` above :data:`SUSPECT`.
        """
        if self.is_reversed:
            return (
                f"the effort of joint {self.joint!r} has the wrong sign: it is {self.scale:.3g} "
                f"times the model's torque; fix the driver, or declare currents and let their "
                f"gains be found (--effort current)"
            )
        if self.is_odd and self.ratio > SUSPECT:
            return (
                f"the effort of joint {self.joint!r} is {self.scale:.3g} times the model's torque: "
                f"it looks like motor current or another unit (--effort current), or the URDF is "
                f"of another arm or lacks an inertia"
            )
        return ""


def usable_efforts(
    motions: Sequence[RecordedMotion], model: Model, parameters: DetectorParameters
) -> tuple[list[RecordedMotion], tuple[str, ...]]:
    """Drop samples with outliers; raise an error for wrong velocities and for unusable efforts.

    Args:
        motions: motions without contact, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot.
        parameters: kind and gains of the efforts; currents whose gains are all one have unknown
            gains, and are compared with :func:`stray_bounds` only.

    Returns:
        The motions without implausible samples, and notes for the user with the number of the
        samples that were dropped.

    Raises:
        RecordingError: for velocities that contradict the positions, an effort that is missing or
            constant, or more than 1 % implausible samples of a joint; the message has the problem
            and the joint, unless the effort is zero on all joints.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    usable, notes = [], []
    several = len({motion.name for motion in motions}) > 1
    wrong = wrong_velocities(velocity_fits(motions, model))
    if wrong:
        raise RecordingError(wrong)
    _refuse_dead(motions, model)
    for motion in motions:
        fine = in_range(motion)
        bad = ~(np.abs(motion.tau) <= stray_bounds(motion.tau))
        if not are_unknown_currents(model, parameters):
            bad |= implausible(motion, model, parameters)
        _refuse_absurd(motion, bad, model, f"{motion.name}: " if several else "")
        dropped = bad.any(axis=1) | ~fine
        if dropped.any():
            joint = model.joint_names[int(np.argmax(bad.sum(axis=0))) - model.nv]
            notes.append(
                f"{motion.name}: {dropped.sum()} of {dropped.size} samples are left out: "
                f"implausible effort or speed on {joint}"
            )
            motion = motion.only(~dropped)
        usable.append(motion)
    return usable, tuple(notes)


def are_unknown_currents(model: Model, parameters: DetectorParameters) -> bool:
    """Return whether efforts are currents whose gains are not known yet.

    This is the case if ``effort_kind`` is ``current`` and every ``effort_gain`` is 1, the default.

    Raises:
        ParameterError: for an ``effort_gain`` of the wrong length.
    """
    gain = parameters.for_joints("effort_gain", model.nv)
    return parameters.effort_kind == "current" and bool((gain == 1.0).all())


def stray_bounds(tau: Array) -> Array:
    """Return the magnitude above which an effort of a joint counts as an outlier.

    Args:
        tau: efforts in any unit, (k, nv).

    Returns:
        Bounds in the same unit, (nv,): :data:`STRAY_FACTOR` times the median magnitude of the
        joint, at most 1e9; 1e9 if the median is zero or NaN.
    """
    with np.errstate(invalid="ignore"):
        median = np.nanmedian(np.abs(tau), axis=0)
    return np.where(median > 0.0, np.minimum(STRAY_FACTOR * median, LARGEST), LARGEST)


def _refuse_dead(motions: Sequence[RecordedMotion], model: Model) -> None:
    """Raise an error for an effort that is constant, or often zero while the joint moves."""
    tau, v = (np.concatenate(x) for x in zip(*((m.tau, m.v) for m in motions), strict=True))
    if not tau.any():
        raise RecordingError(
            "effort is not measured: it is exactly zero on all joints; fix the driver, or record "
            "a topic that carries it"
        )
    for i, joint in enumerate(model.joint_names, model.nv - len(model.joint_names)):
        moving = np.abs(v[:, i]) > SLOW
        zero = float((tau[moving, i] == 0.0).mean()) if moving.any() else 0.0
        if zero > DEAD_SHARE:
            raise RecordingError(
                f"joint {joint!r} publishes no effort: it is exactly zero in {zero:.0%} of the "
                f"samples in which the joint moves; fix the driver"
            )
        if np.ptp(tau[:, i]) == 0.0:
            raise RecordingError(
                f"the effort of joint {joint!r} never changes, it is {tau[0, i]:.4g} throughout: "
                f"it is not measured; fix the driver"
            )


def _refuse_absurd(
    motion: RecordedMotion, bad: NDArray[np.bool_], model: Model, where: str
) -> None:
    """Raise an error if more than :data:`STRAY_SHARE` of the samples of a joint are ``bad``.

    ``bad``, (k, nv), marks implausible efforts and speeds; the message begins with ``where``.
    """
    share = bad.mean(axis=0)
    i = int(np.argmax(share))
    if share[i] <= STRAY_SHARE:
        return
    joint = model.joint_names[i - model.nv]
    worst = float(np.abs(motion.tau[:, i]).max())
    raise RecordingError(
        f"{where}effort or speed of joint {joint!r} is implausible in {share[i]:.0%} of "
        f"the samples: the effort reaches {worst:.4g}, the effort limit is "
        f"{float(model.effort_limit[i]):.4g} N·m or N; declare what the effort is (--effort), or "
        f"fix the driver"
    )


def effort_scales(
    motions: Sequence[RecordedMotion], model: Model, maximum_gap: float
) -> list[EffortScale]:
    """Compare the effort of each joint with the torque of the model, to check unit and sign.

    Args:
        motions: motions without contact, ``tau`` declared to be torque [N·m or N].
        model: the robot, with the gravity that ``tau`` should contain.
        maximum_gap: longest time between two samples; a longer gap divides a motion [s].

    Returns:
        The scale of each joint, in the order of the joints of the model.

    Raises:
        RecordingError: when no part of the motions without gaps lasts ten time constants of the
            filter, which is 0.5 s, or more at sample rates below 67 Hz.
    """
    need, friction, effort = _regressors(motions, model, maximum_gap)
    scaled, errors, covariances = _regressions(need, friction, effort)
    declared = _errors(effort - need, friction)
    lighter = _with_payload(motions, model, maximum_gap, friction, effort - need, declared)
    first = model.nv - len(model.joint_names)
    return [
        EffortScale(
            joint=joint,
            scale=float(scaled[i, 0]),
            is_known=bool(VAGUE * abs(scaled[i, 0]) > np.sqrt(covariances[i, 0])),
            ratio=float(declared[i] / max(errors[i], np.finfo(float).tiny)),
            drives=bool(scaled[i, 1] < -SIGNIFICANT * np.sqrt(covariances[i, 1])),
            is_payload=bool(lighter[i] <= PAYLOAD_EXPLAINS * errors[i]),
        )
        for i, joint in enumerate(model.joint_names, first)
    ]


def _regressors(
    motions: Sequence[RecordedMotion], model: Model, maximum_gap: float
) -> tuple[Array, Array, Array]:
    """Return needed torque (n, nv), friction (n, nv, 3) and effort (n, nv), all filtered."""
    still = [replace(m, tau=np.zeros_like(m.tau)) for m in motions]
    columns = filtered_columns(still, model, maximum_gap)
    # The motor torque enters the external torque with a negative sign.
    effort = columns.x - filtered_external(motions, model, maximum_gap)
    return columns.x, columns.friction[:, :, SHAPE, :3], effort


def _regressions(need: Array, friction: Array, effort: Array) -> tuple[Array, Array, Array]:
    """Return coefficients (nv, 4), RMS errors (nv,) and variances (nv, 4) of each effort."""
    found, errors, variances = [], [], []
    for i in range(effort.shape[1]):
        features = np.column_stack([need[:, i], friction[:, i]])
        theta, *_ = np.linalg.lstsq(features, effort[:, i], rcond=None)
        left = effort[:, i] - features @ theta
        found.append(theta)
        errors.append(left.std())
        variances.append(left.var() * np.diag(np.linalg.pinv(features.T @ features)))
    return np.array(found), np.array(errors), np.array(variances)


def _errors(rest: Array, friction: Array) -> Array:
    """Return the RMS error (nv,) of fitting friction alone to ``rest`` (n, nv)."""
    left = np.empty(rest.shape[1])
    for i in range(rest.shape[1]):
        theta, *_ = np.linalg.lstsq(friction[:, i], rest[:, i], rcond=None)
        left[i] = (rest[:, i] - friction[:, i] @ theta).std()
    return left


def _with_payload(
    motions: Sequence[RecordedMotion],
    model: Model,
    maximum_gap: float,
    friction: Array,
    rest: Array,
    spread: Array,
) -> Array:
    """Return the RMS error (nv,) that friction and the best payload leave of ``rest``.

    ``rest``, (n, nv), is the effort less the needed torque, ``spread``, (nv,), its RMS error with
    friction alone, which weights the joints.
    """
    still = [replace(m, tau=np.zeros_like(m.tau)) for m in motions]
    payloads = [filtered_external(still, one, maximum_gap) for one in unit_payloads(model)]
    features = np.stack(payloads, axis=-1)
    # Friction is projected out joint by joint, so that the payload is fitted to what it leaves.
    weight = np.maximum(spread, np.finfo(float).tiny)
    rows, wanted = [], []
    for i in range(rest.shape[1]):
        both = np.column_stack([features[:, i], rest[:, i]])
        theta, *_ = np.linalg.lstsq(friction[:, i], both, rcond=None)
        left = (both - friction[:, i] @ theta) / weight[i]
        rows.append(left[:, :-1])
        wanted.append(left[:, -1])
    theta, *_ = np.linalg.lstsq(np.concatenate(rows), np.concatenate(wanted), rcond=None)
    return _errors(rest - features @ theta, friction)
