"""The weakest push that the detector can detect with its thresholds, by link and direction.

A unit force at the origin of a link in direction ``d`` adds ``Jᵀ d`` to the residual. In one pose
the weakest detected force is the smallest ``f`` for which one of the detector's rules holds::

    |f Jᵀ d|_i > threshold_i                              for some joint i
    ‖W less_friction(f Jᵀ d)‖ > statistic threshold       with the covariance of the residual

with W the whitening matrix of the covariance (:mod:`~rbd_control.estimation.thresholds`), and
``less_friction`` a reduction of each magnitude by the friction margin of the joint, down to zero.
The thresholds apply at the recorded speed, with the friction margin of joints at rest or reversing.
If the residual of the motion is known, they grow in motion faster than in the calibration as well.

The residual also contains noise and model errors, which may add to a push or reduce it. If the
residual of the motion is known, the push is therefore added to it: the weakest push that begins at
a sample is the smallest force for which a rule holds at any time of the next :data:`PUSH` seconds,
for as long as ``onset_debounce`` requires, with the rise of the observer, for both signs of the
force. Without a residual, noise, model errors and ``onset_debounce`` are neglected, and the forces
are about a third too large.

If the gains of the drives have errors (``effort_gain_error``), the residual shows a torque wrong by
this share; a push then counts as if the residual showed two standard errors less of it.

The result is the median over the poses: half of the pushes of this force are found.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.errors import InputError
from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.isolation_kernel import least_forces_by_statistic
from rbd_control.estimation.observers import delay_torques
from rbd_control.estimation.thresholds import motion_errors, with_default_thresholds
from rbd_control.estimation.validity import sampling_noise
from rbd_control.identification.diagnosis import finish
from rbd_control.identification.drive_gains import CONFIDENT
from rbd_control.identification.motion import RecordedMotion

Array = NDArray[np.float64]

BLIND = 1e4
"""Force above which a push counts as never detected [N]."""
POSES = 200
"""Largest number of evaluated poses, or of simulated pushes."""
LEAST_TORQUE = 1e-12
"""Torque of a force of 1 N below which the force has no effect [N·m or N]."""
LEAST_LEVER = 1e-9
"""Lever of a force about a joint's axis below which it is rounding error [m or 1]."""
PUSH = 0.3
"""Length of a push [s]."""
SPACING = 0.1
"""Time between the starts of two simulated pushes [s]."""
SAMPLES_PER_PUSH = 50
"""Number of evaluated samples of one push; slower recordings repeat some of them."""


def _directions(count: int) -> Array:
    """Return unit vectors that cover half of the sphere evenly, (count, 3)."""
    z = (np.arange(count) + 0.5) / count
    angle = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


DIRECTIONS = _directions(100)
"""Evaluated directions of force, about 15 degrees apart."""


@dataclass(frozen=True)
class WeakestPush:
    """The weakest detected pushes at the origin of one link, medians over the poses [N].

    A force that is never detected is infinite.
    """

    link: str
    best: float
    """Force in the direction that needs the smallest force, chosen for each pose [N]."""
    worst: float
    """Force in the direction that needs the largest force, chosen for each pose [N]."""
    axes: tuple[float, float, float]
    """Forces along x, y and z of the root link [N]."""
    loads: bool = True
    """Whether a force at the origin loads a joint in any pose; false for an origin on all axes."""

    def to_json(self) -> dict[str, Any]:
        """Return the forces as plain values for ``json``; infinite forces are None."""
        best, worst, *axes = (
            None if np.isinf(force) else force for force in (self.best, self.worst, *self.axes)
        )
        return {"link": self.link, "best": best, "worst": worst, "axes": axes}


def weakest_pushes(
    model: Model, parameters: DetectorParameters, q: Array, v: Array
) -> tuple[WeakestPush, ...]:
    """Return the weakest detected push on each link that a joint moves, neglecting noise.

    Args:
        model: the identified robot.
        parameters: of the detector, per-joint values in the order of the model.
        q: poses, (k, nq) [rad or m]; at most :data:`POSES` of them are evaluated.
        v: velocities in these poses, (k, nv) [rad/s or m/s].

    Returns:
        Medians over the poses, in the order of ``model.joint_links``.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
        InputError: without poses.
    """
    if not len(q):
        raise InputError("give at least one pose")
    step = -(-len(q) // POSES)
    return finish(pushes_in_steps(model, parameters, q[::step], v[::step]))


def weakest_pushes_in(
    model: Model, parameters: DetectorParameters, motions: Sequence[RecordedMotion]
) -> tuple[WeakestPush, ...]:
    """Return the weakest detected push on each link, with the noise of recorded motions.

    The result is as for :func:`weakest_pushes`.

    Args:
        model: the identified robot.
        parameters: of the detector, per-joint values in the order of the model.
        motions: motions without contact, efforts as recorded. If no motion has verdicts without
            contact for the length :data:`PUSH` of a push, noise is neglected.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
        InputError: without motions.
    """
    if not motions:
        raise InputError("give at least one motion")
    looks = PushSamples.of(model, parameters, motions)
    if looks is None:
        q, v = (np.concatenate([getattr(m, name) for m in motions]) for name in ("q", "v"))
        return weakest_pushes(model, parameters, q, v)
    start = DetectionThresholds.of(model, parameters, looks.v[:, 0], looks.error[:, 0])
    return tuple(_with_noise(model, parameters, start, link, looks) for link in model.joint_links)


def pushes_in_steps(
    model: Model, parameters: DetectorParameters, q: Array, v: Array
) -> Generator[None, None, tuple[WeakestPush, ...]]:
    """Yield after each evaluated direction of force, and return the weakest push on each link.

    A caller can thus divide the computation. The result is as for :func:`weakest_pushes`, but all
    poses in ``q`` are evaluated, not at most :data:`POSES`.
    """
    rules = DetectionThresholds.of(model, parameters, v)
    pushes = []
    for link in model.joint_links:
        push = yield from _of_link(model, rules, link, q)
        pushes.append(push)
    return tuple(pushes)


@dataclass(frozen=True, eq=False)
class PushSamples:
    """Samples at which n simulated pushes are evaluated, m = :data:`SAMPLES_PER_PUSH` of each."""

    q: Array
    """(n, m, nq) joint positions [rad or m]."""
    v: Array
    """(n, m, nv) joint velocities [rad/s or m/s]."""
    error: Array
    """(n, m, nv) increase of the thresholds in motion other than in the calibration [N·m or N]."""
    residual: Array
    """(n, m, nv) residual without contact [N·m or N]."""
    risen: Array
    """(n, m, nv) part of a constant torque that the residual shows at each sample."""

    @classmethod
    def of(
        cls, model: Model, parameters: DetectorParameters, motions: Sequence[RecordedMotion]
    ) -> PushSamples | None:
        """Return samples of pushes that are spread over the motions.

        Args:
            model: the identified robot.
            parameters: of the detector.
            motions: motions without contact, efforts as published.

        Returns:
            At most :data:`POSES` pushes; None if no motion has verdicts without contact for the
            length :data:`PUSH` of a push.
        """
        observer = parameters.make_observer(model)
        found: list[tuple[Array, ...]] = []
        for motion in motions:
            detector = ContactDetector(model, parameters)
            block = detector.update_block(motion.t, motion.q, motion.v, motion.tau)
            rows = _push_rows(motion.t, np.asarray(block.valid & ~block.contact))
            period = float(np.median(np.diff(motion.t))) if rows else 0.0
            error = _motion_allowances(model, parameters, motion)
            for row in rows:
                # The period is rounded to two digits, by up to 5 %.
                observer.rise(period, int(1.06 * PUSH / period) + 2)
                after = motion.t[row] - motion.t[row[0]]
                risen = np.array([observer.risen(float(age)) for age in after])
                found.append((motion.q[row], motion.v[row], error[row], block.residual[row], risen))
        if not found:
            return None
        step = -(-len(found) // POSES)
        return cls(*map(np.array, zip(*found[::step], strict=True)))


def _motion_allowances(
    model: Model, parameters: DetectorParameters, motion: RecordedMotion
) -> Array:
    """Return the increase of the thresholds in motion other than in the calibration, (k, nv).

    It is that of the detector, ``error`` beyond ``covered_error``
    (:mod:`~rbd_control.estimation.thresholds`), and the noise at a lower rate
    (:func:`~rbd_control.estimation.validity.sampling_noise`) [N·m or N].
    """
    inertia, gain, covered, pole, noise = (
        parameters.for_joints(name, model.nv)
        for name in (
            "inertia_error",
            "effort_gain_error",
            "covered_error",
            "observer_gain",
            "torque_noise",
        )
    )
    balance, dt = parameters.balance(model).run(motion.q, motion.v, motion.tau), np.diff(motion.t)
    late = np.empty_like(balance.drive)
    delay_torques(dt, balance.drive, parameters.velocity_delay, late)
    effort = balance.drive + balance.load
    error = motion_errors(dt, balance.p, late, effort, inertia, gain, parameters.delay_error, pole)
    period, rate = float(np.median(dt)), parameters.calibrated_rate
    growth = getattr(sampling_noise, "py_func", sampling_noise)  # as Python
    slower = [growth(*of, period, rate) for of in zip(pole, noise, strict=True)]
    return np.maximum(np.concatenate([np.zeros_like(late[:1]), error]) - covered, 0.0) + slower


def _push_rows(t: Array, valid: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the :data:`SAMPLES_PER_PUSH` samples of each simulated push; pushes follow each other.

    Args:
        t: times of the samples, (k,) [s].
        valid: samples with a residual and without a contact, (k,).
    """
    rows, first = [], 0
    while first < t.size and t[first] + PUSH <= t[-1]:
        last = int(np.searchsorted(t, t[first] + PUSH, side="right"))
        if last - first > 1 and valid[first:last].all():
            rows.append(np.linspace(first, last - 1, SAMPLES_PER_PUSH).round().astype(np.int64))
        first = max(int(np.searchsorted(t, t[first] + SPACING)), first + 1)
    return rows


@dataclass(frozen=True, eq=False)
class DetectionThresholds:
    """The thresholds of the detector at k samples."""

    threshold: Array
    """(k, nv) threshold of each joint [N·m or N]."""
    allowance: Array
    """(k, nv) friction margin of each residual [N·m or N]."""
    whitening: Array | None
    """(nv, nv) whitening matrix of the residuals; None without a covariance."""
    statistic: Array
    """(k,) threshold of the length of the residual, in standard deviations."""
    shown: Array
    """(nv,) share of an external torque that the residual shows for certain."""

    @classmethod
    def of(
        cls, model: Model, parameters: DetectorParameters, v: Array, error: Array | float = 0.0
    ) -> DetectionThresholds:
        """Return the rules at the velocities v (k, nv) [rad/s or m/s].

        Unlike in the detector, the thresholds grow with the present speed only, not with its recent
        peak or torque that changes between samples, and the friction margin does not decay after a
        reversal. The margin for uncertain friction, which is small once the joints have moved, is
        left out, and so are the thresholds of the force. The increase ``error`` in motion other
        than in the calibration, (k, nv) [N·m or N], is zero by default.
        """
        parameters = with_default_thresholds(parameters, model)
        contact, slope, moving, slow = (
            parameters.for_joints(name, model.nv)
            for name in (
                "contact_threshold",
                "threshold_speed",
                "moving_ratio",
                "reversal_speed",
            )
        )
        speed = np.abs(v)
        allowance = contact * (1.0 - moving) * (speed <= slow)
        covariance = parameters.covariance(model.nv)
        whitening = None if covariance is None else np.linalg.inv(np.linalg.cholesky(covariance))
        statistic = parameters.statistic_threshold + parameters.statistic_speed * speed.max(axis=1)
        threshold = moving * contact + allowance + slope * speed + error
        gain_error = parameters.for_joints("effort_gain_error", model.nv)
        shown = np.maximum(1.0 - CONFIDENT * gain_error, 0.0)
        return cls(threshold, allowance + error, whitening, statistic, shown)

    def least_force(self, torque: Array, residual: Array | float = 0.0) -> Array:
        """Return the weakest detectable force at each sample, (k,) [N].

        The force acts along the direction d of ``torque``, not against it. If no force below
        :data:`BLIND` is detectable, the result is infinite. The thresholds of the force are left
        out.

        Args:
            torque: torque of a force of 1 N along d, (k, nv) [N·m or N], of which the residual
                shows the share :attr:`shown`.
            residual: residual without the force, (k, nv) [N·m or N].
        """
        torque = self.shown * torque
        margin = np.maximum(self.threshold - np.sign(torque) * residual, 0.0)
        force = (margin / np.maximum(np.abs(torque), LEAST_TORQUE)).min(axis=1)
        force = self._least_by_statistic(torque, residual, np.minimum(force, BLIND))
        return np.where(force < BLIND, force, np.inf)

    def _least_by_statistic(self, torque: Array, residual: Array | float, most: Array) -> Array:
        """Return the least force (k,) at which the statistic passes its threshold [N].

        Args:
            torque: residual of a force of 1 N, (k, nv) [N·m or N].
            residual: residual without the force, (k, nv) [N·m or N].
            most: force that is returned if no smaller force exceeds the threshold, (k,) [N].
        """
        if self.whitening is None:
            return most
        # Copies, because numba would compile further code for read-only views.
        r = np.array(np.broadcast_to(residual, torque.shape))
        allowance = np.array(np.broadcast_to(self.allowance, torque.shape))
        statistic = np.array(np.broadcast_to(self.statistic, most.shape))
        torque, least = np.ascontiguousarray(torque), np.empty_like(most)
        least_forces_by_statistic(torque, r, allowance, self.whitening, statistic, most, least)
        return least


def least_forces(rules: DetectionThresholds, J: Array) -> Generator[tuple[Array, Array]]:
    """Yield each direction that is tried, with the weakest detectable force in this direction.

    Args:
        rules: the thresholds at k samples, or at one sample for all.
        J: translational Jacobian of the point that is pushed, (k, 3, nv) in the axes of the root
            [m or 1].

    Yields:
        Directions (k, 3), unit vectors, and forces (k,) [N], which are infinite where no force in
        this direction is detectable. The order is: the axes x, y, z of the root, directions over
        half of the sphere, and the principal axes of the map from force to joint torque in units of
        the thresholds.
    """
    weighted = rules.shown * J / rules.threshold[:, None, :]
    # One of the principal axes may load no joint at all.
    _, axes = np.linalg.eigh(weighted @ weighted.transpose(0, 2, 1))
    fixed = np.repeat(np.concatenate([np.eye(3), DIRECTIONS])[:, None, :], len(J), axis=1)
    for d in (*fixed, *axes.transpose(2, 0, 1)):
        yield d, rules.least_force(np.einsum("kdi,kd->ki", J, d))


def _of_link(
    model: Model, rules: DetectionThresholds, link: str, q: Array
) -> Generator[None, None, WeakestPush]:
    """Yield after each direction that was tried, and return the weakest pushes on one link."""
    J = np.asarray(frame_jacobian(model, q, link))[:, 3:]
    forces = []
    for _, force in least_forces(rules, J):
        forces.append(force)
        yield
    # The same direction loads the joints differently in each pose.
    best, worst = np.min(forces, axis=0), np.max(forces, axis=0)
    x, y, z = (float(np.median(force)) for force in forces[:3])
    loads = bool((np.abs(J) > LEAST_LEVER).any())
    return WeakestPush(link, float(np.median(best)), float(np.median(worst)), (x, y, z), loads)


def _with_noise(
    model: Model,
    parameters: DetectorParameters,
    start: DetectionThresholds,
    link: str,
    looks: PushSamples,
) -> WeakestPush:
    """Return the weakest pushes on one link that are detected in spite of the noise.

    Args:
        model: the robot.
        parameters: of the detector.
        start: the rules at the first sample of each push.
        link: the link that is pushed.
        looks: samples of the pushes.
    """
    n, m, nv = looks.v.shape
    J = np.asarray(frame_jacobian(model, looks.q.reshape(n * m, -1), link))[:, 3:]
    # With noise, the direction of the largest noise would win, so directions are chosen without it.
    tried = list(least_forces(start, J.reshape(n, m, 3, nv)[:, 0]))
    directions, forces = (np.array(each) for each in zip(*tried, strict=True))
    chosen = [np.broadcast_to(axis, (n, 3)) for axis in np.eye(3)]
    chosen += [directions[pick, np.arange(n)] for pick in (forces.argmin(0), forces.argmax(0))]
    v, a, residual, risen = (
        each.reshape(n * m, nv) for each in (looks.v, looks.error, looks.residual, looks.risen)
    )
    rules = DetectionThresholds.of(model, parameters, v, a)
    medians = []
    for each in chosen:
        torque = risen * np.einsum("kdi,kd->ki", J, np.repeat(each, m, axis=0))
        least = [rules.least_force(sign * torque, residual).reshape(n, m) for sign in (1.0, -1.0)]
        medians.append(float(np.median([_lasting(each, parameters) for each in least])))
    # The residual may favour the direction that needs the largest force without it.
    best, worst, (x, y, z) = min(medians), max(medians), medians[:3]
    return WeakestPush(link, best, worst, (x, y, z), bool((np.abs(J) > LEAST_LEVER).any()))


def _lasting(least: Array, parameters: DetectorParameters) -> Array:
    """Return the smallest force that is detected for ``onset_debounce`` in each push, (n,) [N].

    Args:
        least: the weakest detected force at each sample of each push, (n, m) [N].
        parameters: of the detector.

    Returns:
        The forces; infinite if ``onset_debounce`` is not shorter than a push.
    """
    if parameters.onset_debounce >= PUSH:
        return np.full(len(least), np.inf)
    samples = 1 + int(parameters.onset_debounce * (SAMPLES_PER_PUSH - 1) / PUSH)
    runs = np.lib.stride_tricks.sliding_window_view(least, samples, axis=1)
    return np.asarray(runs.max(axis=-1).min(axis=1))
