"""Explanations of a residual without contact by errors of model, effort or payload.

A wrong hand, a wrong sign, a wrong unit, and a driver that subtracts gravity each cause a
characteristic residual. Over some seconds without contact, with ``x`` the mean external torque by
the model, ``y`` the torque, including friction, that the model needs for the motion, and ``g`` its
gravity torque:

* no effort:            effort = 0 on one joint that needs a torque
* gravity subtracted:   ``x = g`` on all joints that carry weight; ``x = -g`` if the efforts include
  gravity although they are declared to be without it
* payload not modelled: ``x`` is the negative torque of a mass fixed to the last link, on all joints
* sign or unit:         effort = ``gain y`` on one joint, with a gain far from one
* constant torque:      ``x`` is constant on one joint

They are tested in the order no effort, gravity, sign and unit, payload, constant torque. An
explanation counts if the remaining mean square of ``x`` is below :data:`LEFT` of the original
(:data:`WELL` for gravity, sign and unit), and the explained torque exceeds half the contact
threshold. If gravity is the explanation, the tests after it are skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.observers import SecondOrderObserver
from rbd_control.estimation.thresholds import with_default_thresholds
from rbd_control.identification.motion import RecordedMotion, implausible, in_range
from rbd_control.identification.regression import external_means, means

Array = NDArray[np.float64]

FILTER_GAIN = 10.0
"""Natural frequency of the second-order noise filter before the comparison [1/s]."""
SAMPLES = 50
"""Smallest number of compared samples, :data:`SPACING` apart, for an explanation."""
SPACING = 0.05
"""Time between samples that are compared [s]."""
LEFT = 0.4
"""Largest remaining share of the mean square for an explanation."""
WELL = 0.15
"""Largest remaining share of the mean square for an explanation by kind, sign or unit of effort."""
GAINS = (0.6, 1.6)
"""Range of gains (effort / torque of the model) that friction, motion or a small payload can
explain; a gain outside is a wrong sign or unit."""
LEAST_MASS = 0.05
"""Payloads below this mass are not reported [kg]."""
NO_EFFORT = 1e-6
"""Fraction of the model torque below which an effort counts as missing."""
MINORITY = 0.5
"""Largest fraction of implausible samples that are dropped. A larger fraction means that the effort
is in another unit, and the samples are kept for the explanation."""


@dataclass(frozen=True)
class Mismatch:
    """One difference between model, effort and robot."""

    kind: str
    """``dead`` (effort not measured), ``gravity`` (wrong ``effort_kind``), ``payload``, ``sign`` or
    ``unit`` of the effort, or ``offset`` (constant residual)."""
    joint: str
    """Name of the joint with this difference; empty if the difference concerns the whole arm."""
    text: str
    """The finding with its numbers, and the remedy."""


def find_mismatches(
    motion: RecordedMotion,
    model: Model,
    parameters: DetectorParameters,
    bias: Array | None = None,
) -> tuple[Mismatch, ...]:
    """Return explanations of the residual of a motion that is mostly free of contact.

    Args:
        motion: at least some seconds, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot; inertial corrections in ``parameters`` are not applied to it.
        parameters: kind and gain of the efforts, friction and thresholds of the detector.
        bias: constant external torque that a tare has removed, (nv,) [N·m or N]; zero by default.

    Returns:
        The explanations in the order of the tests (top of the module). If all efforts are exactly
        zero, the only one is ``dead``, for the whole arm. Otherwise empty if no explanation fits,
        if the RMS residual of every joint is at most half of its contact threshold, or if fewer
        than :data:`SAMPLES` samples can be compared.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    if motion.t.size and not motion.tau.any():
        # A driver that measures effort does not publish this, with or without a payload.
        text = (
            "effort not measured: it is exactly zero on all joints, so no verdict is "
            "reliable; fix the driver, or use a topic that carries effort"
        )
        return (Mismatch("dead", "", text),)
    parameters = with_default_thresholds(parameters, model)
    motion = _believable(motion, model, parameters)
    told = _tell(motion, model, parameters, np.zeros(model.nv) if bias is None else bias)
    if told is None:
        return ()
    x, need, gravity, payload = told
    known = parameters.for_joints("contact_threshold", model.nv)
    if not (_rms(x) > 0.5 * known).any():
        return ()
    dead = (motion.tau == 0.0).all(axis=0) & (_rms(x) > 0.5 * known)
    found = _dead(dead, need, model)
    # The residual of a joint without effort gives no information on the other joints.
    threshold = np.where(dead, np.inf, known)
    if not (_rms(x) > 0.5 * threshold).any():
        return tuple(found)
    text = _gravity(x, need, gravity, threshold, parameters.effort_kind)
    if text:
        return (*found, Mismatch("gravity", "", text))
    present = parameters.for_joints("effort_gain", model.nv)
    scaled = [
        _scale(joint, x[:, i], need[:, i], float(threshold[i]), float(present[i]))
        for i, joint in enumerate(model.joint_names)
    ]
    theta = _solve(payload, -x, threshold)
    left = x + payload @ theta
    odd = np.array([item is not None for item in scaled])
    unscaled = _unlike(need - x, need)
    if _explains(left, x, threshold, WELL) and (_rms(left) < _rms(unscaled))[odd].all():
        # One payload explains all apparent errors of units.
        scaled = [None] * model.nv
    # Joints with these errors would hide the evidence of the other joints for a payload.
    trusted = np.where([item is None for item in scaled], threshold, np.inf)
    found += [item for item in scaled if item]
    theta = _solve(payload, -x, trusted)
    left = x + payload @ theta
    if abs(theta[0]) > LEAST_MASS and _explains(left, x, trusted, LEFT):
        found.append(_payload(theta, model, _share(left / trusted, x / trusted)))
        x = left
    has_offset = hasattr(parameters.friction(model.nv), "offset")
    for i, joint in enumerate(model.joint_names):
        offset = _offset(joint, x[:, i], float(trusted[i]), has_offset)
        if offset:
            found.append(offset)
    return tuple(found)


def _gravity(x: Array, need: Array, gravity: Array, threshold: Array, effort_kind: str) -> str:
    """Return the mismatch if ``effort_kind`` is wrong about gravity; empty if it is right."""
    if (
        effort_kind == "torque"
        and _explains(x - gravity, x, threshold, WELL)
        and not _proportional(need - x, need, x - gravity, threshold)
    ):
        return (
            f"efforts do not include gravity: without it {_share(x - gravity, x)} of the residual "
            f"is left; set effort_kind to torque_without_gravity"
        )
    if effort_kind == "torque_without_gravity" and _explains(x + gravity, x, threshold, WELL):
        return (
            f"efforts include gravity: with it {_share(x + gravity, x)} of the residual "
            f"is left; set effort_kind to torque"
        )
    return ""


def _believable(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters
) -> RecordedMotion:
    """Return the motion without implausible samples.

    If these are half of the motion or more, only samples out of range are removed.
    """
    motion = motion.only(in_range(motion))
    kept = np.asarray(~implausible(motion, model, parameters).any(axis=1))
    return motion.only(kept) if kept.sum() > MINORITY * kept.size else motion


def _tell(
    motion: RecordedMotion, model: Model, parameters: DetectorParameters, bias: Array
) -> tuple[Array, Array, Array, Array] | None:
    """Return residual, model torque and gravity (n, nv), payload features (n, nv, 4), filtered.

    The result is None for fewer than :data:`SAMPLES` samples.
    """
    gain = parameters.for_joints("effort_gain", model.nv)
    friction = parameters.friction(model.nv)
    slow = SecondOrderObserver(model, FILTER_GAIN)
    parts = []
    # The motion may contain fewer samples than the detector processes.
    spacing = float(np.median(np.diff(motion.t))) if motion.t.size > 1 else 0.0
    for part in motion.stretches(max(parameters.maximum_gap, 1.5 * spacing), 1.0):
        tau = gain * part.tau
        g = gravity_torque(model, part.q)
        if parameters.effort_kind == "torque_without_gravity":
            tau = tau + g
        rubbed = friction.torque(part.v)
        without = replace(part, tau=np.zeros_like(tau))
        need = external_means(without, model) + means(rubbed)
        signals = [need - means(tau) - bias, need, means(g)]
        signals += [external_means(without, one) for one in unit_payloads(model)]
        dt = np.diff(part.t)
        step = max(1, round(SPACING / float(np.median(dt))))
        settled = np.flatnonzero(part.t[1:] - part.t[0] > 6.0 / FILTER_GAIN)[::step]
        parts.append(np.stack([slow.filter(dt, signal)[settled] for signal in signals]))
    if not parts or sum(part.shape[1] for part in parts) < SAMPLES:
        return None
    x, need, g, *payload = np.concatenate(parts, axis=1)
    return x, need, g, np.stack(payload, axis=-1)


def unit_payloads(model: Model) -> list[Model]:
    """Return robots whose torques are the derivatives with respect to a payload at the last link.

    Returns:
        Four robots that consist only of 1 kg at the origin of the body that the last joint moves,
        or of a first moment of 1 kg·m along x, y or z of the frame of this body.
    """
    arrays, row = model.arrays, model.dof_row[-1]
    result = []
    for column in range(4):
        mass, first = np.zeros_like(arrays.mass), np.zeros_like(arrays.first_moment)
        if column == 0:
            mass[row] = 1.0
        else:
            first[row, column - 1] = 1.0
        only = arrays._replace(
            mass=mass, first_moment=first, second_moment=np.zeros_like(arrays.second_moment)
        )
        result.append(replace(model, arrays=only))
    return result


def _dead(dead: NDArray[np.bool_], need: Array, model: Model) -> list[Mismatch]:
    """Return mismatches for joints whose effort is always exactly zero."""
    return [
        Mismatch(
            "dead",
            joint,
            f"{joint} publishes no effort: it is exactly zero where the model needs up to "
            f"{np.abs(need[:, i]).max():.3g} N·m or N; fix the driver",
        )
        for i, joint in enumerate(model.joint_names)
        if dead[i]
    ]


def _solve(features: Array, wanted: Array, threshold: Array) -> Array:
    """Solve least squares over all joints, each weighted by its inverse threshold."""
    A = (features / threshold[:, None]).reshape(-1, features.shape[-1])
    return np.asarray(np.linalg.lstsq(A, (wanted / threshold).ravel(), rcond=None)[0])


def _explains(left: Array, x: Array, threshold: Array, part: float) -> bool:
    small = float(((left / threshold) ** 2).mean()) < part * float(((x / threshold) ** 2).mean())
    return small and bool((_rms(x - left) > 0.5 * threshold).any())


def _proportional(effort: Array, need: Array, left: Array, threshold: Array) -> bool:
    """Return whether a multiple of ``need`` leaves much less of the efforts than ``left``."""
    return _explains(_unlike(effort, need), left, threshold, WELL)


def _unlike(effort: Array, need: Array) -> Array:
    """Return the remainder of each joint's effort after a fit of a multiple of ``need``."""
    square = np.maximum((need**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(effort - need * ((effort * need).sum(axis=0) / square))


def _payload(theta: Array, model: Model, share: str) -> Mismatch:
    mass, link = float(theta[0]), model.joint_links[-1]
    com = theta[1:] / mass
    where = f"at [{com[0]:.3f} {com[1]:.3f} {com[2]:.3f}] m of {link}"
    if mass > 0.0:
        text = (
            f"the arm carries {mass:.2f} kg {where} that the model lacks; with it, {share} of the "
            f"residual is left: give the URDF with the hand, or the payload"
        )
    else:
        text = (
            f"the model contains {-mass:.2f} kg {where} that the arm does not carry; without it, "
            f"{share} of the residual is left: give the URDF without the hand"
        )
    return Mismatch("payload", "", text)


def _scale(joint: str, x: Array, need: Array, threshold: float, present: float) -> Mismatch | None:
    """Return a mismatch if the efforts are the model's torques times a gain outside ``GAINS``.

    ``present`` is the ``effort_gain`` that the efforts contain; the remedy names another one.
    """
    size, power = float((x**2).mean()), float((need**2).mean())
    if not np.sqrt(size) > 0.5 * threshold or power == 0.0:
        return None
    effort = need - x
    gain = float((effort * need).mean()) / power
    left = float(((effort - gain * need) ** 2).mean())
    if GAINS[0] <= gain <= GAINS[1] or left > WELL * min(size, gain * gain * power):
        return None
    if abs(gain) < NO_EFFORT:
        return Mismatch(
            "dead",
            joint,
            f"{joint} publishes hardly any effort: {gain:.1g} times what the model needs; fix the "
            f"driver or its configuration",
        )
    if -GAINS[1] <= gain <= -GAINS[0]:
        return Mismatch(
            "sign",
            joint,
            f"the effort of {joint} has the wrong sign: it is {gain:.2f} times the model's "
            f"torque; set its effort_gain to {-present:.3g}",
        )
    return Mismatch(
        "unit",
        joint,
        f"the effort of {joint} is {gain:.3g} times the model's torque: it looks like motor "
        f"current or another unit; set effort_gain to {present / gain:.3g}, or run rbd-control "
        f"calibrate --effort current",
    )


def _offset(joint: str, x: Array, threshold: float, has_offset: bool) -> Mismatch | None:
    """Return a mismatch if the residual of a joint is constant.

    ``has_offset`` says whether the friction model uses ``friction_offset``.
    """
    offset, size = float(x.mean()), float((x**2).mean())
    if not np.sqrt(size) > 0.5 * threshold or offset * offset < (1.0 - LEFT) * size:
        return None
    remedy = f"add {-offset:+.2f} to its friction_offset"
    if not has_offset:
        remedy = f"set friction_model to coulomb_viscous and its friction_offset to {-offset:+.2f}"
    return Mismatch(
        "offset",
        joint,
        f"the residual of {joint} is {offset:+.2f} N·m or N throughout: tare the detector, or "
        f"{remedy}",
    )


def _share(left: Array, x: Array) -> str:
    return f"{np.sqrt((left**2).mean() / (x**2).mean()):.0%}"


def _rms(x: Array) -> Array:
    return np.asarray(np.sqrt((x**2).mean(axis=0)))


PERIOD = 0.02
"""Period of the stored samples [s]; model errors change only as fast as the motion."""


class FitWatch:
    """Collects samples for :func:`find_mismatches`, one per :data:`PERIOD`.

    The collection is complete after ``length`` / :data:`PERIOD` samples, rounded up. At sample
    rates below 1 / :data:`PERIOD` (50 Hz) this takes longer than ``length``.

    Args:
        length: duration of the collection [s], which bounds the memory.
    """

    def __init__(self, length: float) -> None:
        self._most = math.ceil(length / PERIOD)
        self._slot = -math.inf
        self._samples: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def is_full(self) -> bool:
        """Whether the collection is complete; further samples are then ignored."""
        return len(self._samples) >= self._most

    def add(self, stamp: float, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> bool:
        """Add one sample and return whether it completes the collection.

        The first sample of each :data:`PERIOD` is stored, all others are ignored.

        Args:
            stamp: time of the sample [s]; must increase.
            q, v: positions and velocities, (nq,) and (nv,) [rad or m, rad/s or m/s].
            tau: joint efforts as published, (nv,), of the kind ``effort_kind``.

        Returns:
            True only for the sample that completes the collection.
        """
        slot = stamp // PERIOD
        if slot <= self._slot or self.is_full:
            return False
        self._slot = slot
        self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        return self.is_full

    def add_block(self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        """Add k samples as :meth:`add` adds one.

        Args:
            stamps: times of the samples, (k,) [s]; must increase.
            q, v: positions and velocities, (k, nq) and (k, nv) [rad or m, rad/s or m/s].
            tau: joint efforts as published, (k, nv).
        """
        if self.is_full:
            return
        slots = stamps // PERIOD
        rows = np.flatnonzero(np.diff(slots, prepend=self._slot) > 0.0)
        rows = rows[slots[rows] > self._slot][: self._most - len(self._samples)]
        if rows.size:
            self._slot = float(slots[rows[-1]])
            kept = stamps[rows].tolist(), q[rows], v[rows], tau[rows]
            self._samples.extend(zip(*kept, strict=True))

    def mismatches(self, detector: ContactDetector) -> tuple[Mismatch, ...]:
        """Return the errors of model, effort or payload that explain the collected residual.

        Args:
            detector: its model, parameters and tare (``bias``) are used; it is unchanged.

        Returns:
            The result of :func:`~rbd_control.identification.find_mismatches`; empty without
            samples.
        """
        if not self._samples:
            return ()
        motion = RecordedMotion(
            "start", *(np.array(each) for each in zip(*self._samples, strict=True))
        )
        return find_mismatches(motion, detector.model, detector.parameters, detector.bias)
