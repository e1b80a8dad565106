"""Friction and thresholds from motions without contact, with the false-alarm rate they imply.

Friction. Without a friction model the residual of a contact-free motion is the filtered friction
torque, and that is linear in its coefficients::

    -r = coulomb F[tanh(v / v_s)] + viscous F[v] + offset F[1]        F: the observer's filter

so they are fitted joint by joint by least squares, the first two bounded to be positive.

Thresholds. What is left of the residual is cut into blocks of a second, and a Gumbel distribution
is fitted to the largest absolute value of each block (extreme-value theory: the maximum of many
weakly dependent values tends to it). The threshold of a joint is the level that a block exceeds
with the probability that makes the wanted number of false alarms an hour over all joints::

    P(block maximum > threshold) = false_alarms_per_hour / (joints * 3600)

It holds for motions like the recorded ones: faster, heavier or colder is another arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, momentum_terms
from rbd_control.errors import RecordingError
from rbd_control.estimation.detector_parameters import DetectorParameters

Array = NDArray[np.float64]

BLOCK = 1.0
"""Length of a block [s]."""
LEAST_BLOCKS = 20
"""Fewer blocks are too few to tell a distribution from."""
LEAST_TRAVEL = 0.5
"""A joint that travels less tells nothing of its friction [rad or m]."""
SLOW = 5.0
"""A joint slower than this many velocity scales is taken to stand still."""
LEAST_SHARE = 0.05
"""Share of the time that each joint must move in each direction."""
SUSPICIOUS = 8.0
"""A residual this many robust standard deviations large ..."""
SUSPICIOUS_TIME = 0.03
"""... for this long [s] looks like contact."""
COLLISION_RATIO = 5.0
"""A collision threshold is at least this many contact thresholds ..."""
COLLISION_SHARE = 0.15
"""... and at least this share of the joint's effort limit."""


@dataclass(frozen=True, eq=False)
class Motion:
    """A recorded contact-free motion, every sample with velocity and torque."""

    name: str
    t: Array
    """(k,) [s], increasing."""
    q: Array
    """(k, nq) [rad or m]."""
    v: Array
    """(k, nv) [rad/s or m/s]."""
    tau: Array
    """(k, nv) [N·m or N]."""


@dataclass(frozen=True)
class JointCalibration:
    """What calibration found of one joint [N·m or N]."""

    joint: str
    rms_before: float
    """Residual without a friction model."""
    rms_after: float
    """Residual with the friction found."""
    largest: float
    """Largest absolute residual with it."""
    threshold: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Parameters for the detector, and what they rest on."""

    parameters: DetectorParameters
    joints: tuple[JointCalibration, ...]
    duration: float
    """Motion that was used [s]."""
    false_alarms_per_hour: float
    """What the thresholds imply, for motions like the recorded ones."""
    residuals: tuple[tuple[str, Array, Array], ...]
    """Name, times (k,) [s] and residuals (k, nv) of each motion, for a picture."""


def calibrate(
    motions: Sequence[Motion],
    model: Model,
    parameters: DetectorParameters | None = None,
    *,
    false_alarms_per_hour: float = 1.0,
) -> Calibration:
    """Identify friction and thresholds.

    Args:
        motions: contact-free motions of the arm, twenty seconds in all at the least.
        model: the robot.
        parameters: where observer gain, timing and friction velocity scale are taken from.
        false_alarms_per_hour: wanted over all joints.

    Raises:
        RecordingError: naming the joint or the moment, when there is too little motion or what
            looks like contact.
    """
    start = replace(parameters or DetectorParameters(), friction_model="none")
    gain = start.for_joints("observer_gain", model.nv)
    scale = start.for_joints("friction_velocity_scale", model.nv)
    _refuse_little_motion(motions, model, scale)
    filtered = [_filtered(motion, model, gain, scale, start) for motion in motions]
    duration = sum(len(blocks) for _, _, _, blocks in filtered) * BLOCK
    if duration < LEAST_BLOCKS * BLOCK:
        raise RecordingError(
            f"{duration:.0f} s of motion can be used; {LEAST_BLOCKS * BLOCK:.0f} s are needed"
        )
    before = np.concatenate([r for _, r, _, _ in filtered])
    features = np.concatenate([f for _, _, f, _ in filtered])
    friction = np.array([_fit(features[:, i], before[:, i]) for i in range(model.nv)])
    after = before + np.einsum("kif,if->ki", features, friction)
    residuals = []
    for motion, (t, r, f, _) in zip(motions, filtered, strict=True):
        residuals.append((motion.name, t, r + np.einsum("kif,if->ki", f, friction)))
        _refuse_contact(*residuals[-1], after, model)
    maxima = np.array(
        [
            np.abs(r[block]).max(axis=0)
            for (_, _, r), (_, _, _, blocks) in zip(residuals, filtered, strict=True)
            for block in blocks
        ]
    )
    threshold = _thresholds(maxima, false_alarms_per_hour)
    found = replace(
        start,
        friction_model="coulomb_viscous",
        friction_coulomb=tuple(friction[:, 0]),
        friction_viscous=tuple(friction[:, 1]),
        friction_offset=tuple(friction[:, 2]),
        friction_velocity_scale=tuple(scale),
        contact_threshold=tuple(threshold),
        collision_threshold=tuple(_collision_thresholds(threshold, model)),
    )
    joints = tuple(
        JointCalibration(
            joint=joint,
            rms_before=float(np.sqrt((before[:, i] ** 2).mean())),
            rms_after=float(np.sqrt((after[:, i] ** 2).mean())),
            largest=float(np.abs(after[:, i]).max()),
            threshold=float(threshold[i]),
        )
        for i, joint in enumerate(model.joint_names)
    )
    return Calibration(found, joints, duration, false_alarms_per_hour, tuple(residuals))


def _refuse_little_motion(motions: Sequence[Motion], model: Model, scale: Array) -> None:
    travel = sum(np.abs(np.diff(m.q[:, -model.nv :], axis=0)).sum(axis=0) for m in motions)
    v = np.concatenate([m.v for m in motions])
    for i, joint in enumerate(model.joint_names):
        shares = [(sign * v[:, i] > SLOW * scale[i]).mean() for sign in (1.0, -1.0)]
        if travel[i] < LEAST_TRAVEL or min(shares) < LEAST_SHARE:
            raise RecordingError(
                f"joint {joint!r} moves too little to tell its friction: {travel[i]:.2f} rad or m "
                f"in all, {shares[0]:.0%} of the time forward and {shares[1]:.0%} back; "
                f"{LEAST_TRAVEL} and {LEAST_SHARE:.0%} each way are needed"
            )


def _filtered(
    motion: Motion, model: Model, gain: Array, scale: Array, parameters: DetectorParameters
) -> tuple[Array, Array, Array, list[slice]]:
    """Times, residual without friction, filtered friction features, and blocks of one motion."""
    p, CTv, g = momentum_terms(model, motion.q, motion.v)
    rate = motion.tau + CTv - g
    shapes = np.stack([np.tanh(motion.v / scale), motion.v, np.ones_like(motion.v)], axis=-1)
    dt = np.diff(motion.t)
    external = np.diff(p, axis=0) / dt[:, None] - 0.5 * (rate[1:] + rate[:-1])
    shapes = 0.5 * (shapes[1:] + shapes[:-1])
    residual, features = np.zeros_like(external), np.zeros_like(shapes)
    usable = np.zeros(dt.size, dtype=bool)
    r, f, since = np.zeros(model.nv), np.zeros((model.nv, 3)), 0.0
    for k in range(dt.size):
        if dt[k] > parameters.maximum_gap:
            r, f, since = np.zeros(model.nv), np.zeros((model.nv, 3)), 0.0
            continue
        decay = np.exp(-gain * dt[k])
        r = decay * r + (1.0 - decay) * external[k]
        f = decay[:, None] * f + (1.0 - decay[:, None]) * shapes[k]
        since += dt[k]
        residual[k], features[k] = r, f
        usable[k] = since >= parameters.settling_time
    t = motion.t[1:][usable]
    edges = np.searchsorted(t, np.arange(t[0], t[-1], BLOCK)) if t.size else np.zeros(0, int)
    blocks = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]
    return t, residual[usable], features[usable], blocks


def _fit(features: Array, residual: Array) -> Array:
    """Coulomb, viscous and offset of one joint; the first two not negative."""
    from scipy.optimize import lsq_linear

    bounds = ([0.0, 0.0, -np.inf], np.inf)
    return np.asarray(lsq_linear(features, -residual, bounds=bounds).x)


def _refuse_contact(name: str, t: Array, r: Array, every: Array, model: Model) -> None:
    """Refuse a motion whose residual stands out for a while: somebody touched the arm."""
    centre = np.median(every, axis=0)
    spread = 1.4826 * np.median(np.abs(every - centre), axis=0)
    out = np.abs(r - centre) > SUSPICIOUS * spread
    for i, joint in enumerate(model.joint_names):
        begin = None
        for k in range(t.size):
            if not out[k, i]:
                begin = None
                continue
            begin = t[k] if begin is None else begin
            if t[k] - begin >= SUSPICIOUS_TIME:
                raise RecordingError(
                    f"{name}: the residual of joint {joint!r} at {begin:.2f} s is "
                    f"{abs(r[k, i]):.2f} N·m or N, more than {SUSPICIOUS:.0f} times its usual "
                    f"spread of {spread[i]:.2f}: this looks like contact; calibrate without it"
                )


def _thresholds(maxima: Array, false_alarms_per_hour: float) -> Array:
    """The level of each joint that its block maxima exceed as seldom as wanted."""
    from scipy.stats import gumbel_r

    probability = false_alarms_per_hour / (maxima.shape[1] * 3600.0 / BLOCK)
    levels = [gumbel_r.isf(probability, *gumbel_r.fit(column)) for column in maxima.T]
    # No lower than what was seen: the fit may run below its own largest value.
    return np.asarray(np.maximum(levels, 1.05 * maxima.max(axis=0)))


def _collision_thresholds(threshold: Array, model: Model) -> Array:
    limit = np.where(np.isfinite(model.effort_limit), model.effort_limit, 0.0)
    return np.maximum(COLLISION_RATIO * threshold, COLLISION_SHARE * limit)
