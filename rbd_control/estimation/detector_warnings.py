"""Warnings about valid settings that disable or nearly disable detection."""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.model_arrays import PRISMATIC
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.thresholds import NOISE_FRACTION, with_default_thresholds
from rbd_control.estimation.validity import OTHER_RATE

HIGH_RELEASE = 0.95
"""``release_ratio`` above which noise may release a contact."""
SHORT_RELEASE = 0.01
"""``release_debounce`` below which noise is not filtered out of the end of a contact [s]."""
LONG_RELEASE = 2.0
"""``release_debounce`` above which successive contacts are reported as one [s]."""
HARMFUL_FORCE = 140.0
"""Approximate limit of ISO/TS 15066 for quasi-static force on a hand or forearm [N]."""
COLLISION_TIME = 0.02
"""Approximate duration of a hard collision [s]."""
LONG_DELAY = 0.1
"""Time until a residual reaches :data:`RISEN` above which contacts are reported too late [s]."""
RISEN = 0.63
"""Step response of a first-order filter after one time constant."""
TICK, TICKS = 0.001, 2000
"""Step [s] and number of samples for the evaluation of a step response."""


def detector_warnings(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return warnings about settings that disable or nearly disable detection of contacts.

    Args:
        parameters: of the detector; thresholds of zero count as their defaults.
        model: the robot.

    Returns:
        One text per warning, the most serious first; empty if the settings are good.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    parameters = with_default_thresholds(parameters, model)
    return [
        *_deaf_joints(parameters, model),
        *_weak_sense_of_force(parameters, model),
        *_late_verdicts(parameters, model),
        *_lost_collisions(parameters),
        *_loose_ends(parameters),
    ]


def rate_warning(period: float, parameters: DetectorParameters) -> str:
    """Return a warning if joint states come at a lower rate than in the calibration, or nothing.

    The rate is lower if it is below the calibrated one by more than the factor
    :data:`~rbd_control.estimation.validity.OTHER_RATE`. A higher rate does no harm: more samples
    average the noise, and the torque changes less between them.

    Args:
        period: mean or median time between samples, without repeated samples [s]; 0 if unknown.
        parameters: of the detector.
    """
    calibrated = parameters.calibrated_rate
    if calibrated * period <= OTHER_RATE:
        return ""
    return (
        f"joint states come at {1.0 / period:.4g} Hz, and thresholds were calibrated at "
        f"{calibrated:.4g} Hz: thresholds are raised for the torque between samples, and contacts "
        f"noticed later; calibrate from recordings at the present rate, or publish at the "
        f"calibrated one"
    )


def _deaf_joints(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return warnings about thresholds that reach the effort limit, at rest and at full speed.

    A joint is named once.
    """
    n = model.nv
    base = parameters.for_joints("contact_threshold", n)
    speed = np.where(np.isfinite(model.velocity_limit), model.velocity_limit, 0.0)
    moving = base + speed * parameters.for_joints("threshold_speed", n)
    said = []
    for i, joint in _joints(model):
        limit, unit = model.effort_limit[i], model.torque_unit(i)
        for name, threshold, when in (
            ("contact_threshold", base[i], ""),
            ("threshold_speed", moving[i], " at full speed"),
        ):
            if 0.0 < limit <= threshold:
                said.append(
                    f"the threshold of joint {joint!r}{when} is {threshold:.3g} {unit} ({name}), "
                    f"and its effort limit is {limit:.3g} {unit}: it will hardly ever report "
                    f"contact{when}"
                )
                break
    return said


def _weak_sense_of_force(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return a warning if no threshold detects a push of :data:`HARMFUL_FORCE`.

    Thresholds of joints, of the statistic and of the force count, each for an arm at rest and for
    the push that it detects best.
    """
    base = parameters.for_joints("contact_threshold", model.nv)
    lever = _levers(model)
    joints = [i for i, _ in _joints(model) if lever[i] > 0.0]
    if not joints:
        return []
    force = base[joints] / lever[joints]
    best = int(np.argmin(force))
    first = model.nv - len(model.joint_names)
    joint = model.joint_names[joints[best] - first]
    found = [(float(force[best]), f"contact_threshold: {{}} (by joint {joint!r})")]
    covariance = parameters.covariance(model.nv)
    if covariance is not None:
        # The statistic of a residual of one joint is at least its size in standard deviations.
        deviation = np.sqrt(np.diag(covariance))[joints]
        least = parameters.statistic_threshold * float((deviation / lever[joints]).min())
        found.append((least, "statistic_threshold: {}"))
    if parameters.contact_force_threshold:
        noise = NOISE_FRACTION * base[joints]
        # The prior of the estimated force makes it smaller than the true force.
        precision = float(np.square(lever[joints] / noise).sum())
        damping = 1.0 + 1.0 / (parameters.force_uncertainty**2 * precision)
        found.append((damping * parameters.contact_force_threshold, "contact_force_threshold: {}"))
    weakest, text = min(found)
    if weakest <= HARMFUL_FORCE:
        return []
    what = text.format(f"the weakest push that is detected has {weakest:.0f} N")
    return [f"{what}, but {HARMFUL_FORCE:.0f} N can injure a person; calibrate the thresholds"]


def _late_verdicts(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return warnings about slow filters, and about a settling time that is too short."""
    response = parameters.make_observer(model).step_response(TICK, TICKS)
    rise = TICK * (1.0 + (response < RISEN).sum(axis=0))
    said = []
    slowest = float(rise.max())
    if slowest > LONG_DELAY:
        name = "torque_drift" if parameters.observer == "kalman" else "observer_gain"
        said.append(
            f"{name}: the slowest residual takes {_time(slowest)} to show {RISEN:.0%} of a "
            f"torque; contacts will be noticed late"
        )
    if parameters.settling_time < 2.0 * slowest:
        said.append(
            f"settling_time is {parameters.settling_time} s, and the observer's own time constant "
            f"is {_time(slowest)}: first verdicts may be false"
        )
    return said


def _lost_collisions(parameters: DetectorParameters) -> list[str]:
    if parameters.onset_debounce <= COLLISION_TIME:
        return []
    return [
        f"onset_debounce is {parameters.onset_debounce} s: a collision is over after about "
        f"{COLLISION_TIME} s and will not be reported"
    ]


def _loose_ends(parameters: DetectorParameters) -> list[str]:
    """Return warnings about releases that are too sensitive to noise, or too late."""
    said = []
    if parameters.release_ratio > HIGH_RELEASE and parameters.release_debounce < SHORT_RELEASE:
        said.append(
            f"release_ratio {parameters.release_ratio} and release_debounce "
            f"{parameters.release_debounce} s: one contact will be reported as many"
        )
    if parameters.release_debounce > LONG_RELEASE:
        said.append(
            f"release_debounce is {parameters.release_debounce} s: contacts that follow each other "
            f"will be reported as one"
        )
    return said


def _levers(model: Model) -> np.ndarray:
    """Return the largest lever arm of a link's origin about each joint, (nv,) [m].

    It is estimated from the lengths of the links; 1 for a prismatic joint.
    """
    arrays = model.arrays
    reach = np.zeros(model.bodies)
    for link, body in model.link_body.items():
        if body >= 0:
            reach[body] = max(reach[body], np.linalg.norm(model.link_placement[link][:3, 3]))
    for i in range(model.bodies - 1, -1, -1):
        parent = arrays.parent[i]
        if parent >= 0:
            reach[parent] = max(reach[parent], np.linalg.norm(arrays.translation[i]) + reach[i])
    # The effort of a prismatic joint is the force itself.
    own = np.where(arrays.joint_type[: model.bodies] == PRISMATIC, 1.0, reach)
    lever = np.zeros(model.nv)
    np.maximum.at(lever, arrays.dof[: model.bodies], np.abs(arrays.ratio[: model.bodies]) * own)
    return lever


def _joints(model: Model) -> list[tuple[int, str]]:
    first = model.nv - len(model.joint_names)
    return [(first + i, joint) for i, joint in enumerate(model.joint_names)]


def _time(seconds: float) -> str:
    longest = TICK * TICKS
    return f"over {longest:g} s" if seconds > longest else f"{seconds:.3g} s"
