"""What a motion says about an arm and its efforts: sentences with a level and a remedy.

``check``, ``calibrate``, ``replay`` and the running node ask here, and print the same sentences.
The causes come from :mod:`~rbd_control.identification.causes`. A contact must not count as an error
of the model, so samples in which the residual is an outlier are left out, and the search is
repeated without them. If more than :data:`MOST_TOUCHED` of the samples would be left out, the
cause is no contact, and none is left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.thresholds import (
    default_contact_thresholds,
    with_default_thresholds,
)
from rbd_control.estimation.validity import OTHER_RATE
from rbd_control.identification.causes import (
    HEAVY,
    TILTED,
    Fit,
    FrictionSince,
    Masses,
    Payload,
    Search,
    SwappedEfforts,
    Tilt,
)
from rbd_control.identification.delays import Delay, velocity_delay
from rbd_control.identification.efforts import (
    JointEffort,
    effort_lines,
    effort_step,
    joint_efforts,
    measured,
    unmeasured,
)
from rbd_control.identification.evidence import Evidence, gather, gather_in_steps
from rbd_control.identification.findings import Line, graded
from rbd_control.identification.motion import RecordedMotion, torque_noise
from rbd_control.joint_states.plausibility import limits_or
from rbd_control.robot.payload import PayloadParameters
from rbd_control.wording import listed

Array = NDArray[np.float64]
Result = TypeVar("Result")

OUTLYING = 8.0
"""Smallest residual of an apparent contact, in robust standard deviations from the median."""
OUTLYING_SHARE = 0.1
"""Least residual of an apparent contact, as a share of the default contact threshold."""
STICKING = 0.5
"""Least residual of an apparent contact, as a share of the Coulomb friction of the joint, which may
stick or change by as much."""
MOST_TOUCHED = 0.35
"""Largest share of the time that is left out as contact; more indicates a model error."""
PAD = 4
"""Number of filtered samples on each side of an apparent contact that are left out as well."""
PASSES = 3
"""Maximum number of searches, each without the contacts found by the previous one."""
SURE = 2.0
"""Number of standard errors within which a value is."""
LEAST_MASS, SHARE_OF_MASS = 0.15, 0.03
"""Payload that does not matter: in kg, and as a share of the moving mass if that is more."""
EXACT = 0.05
"""Share of a payload within which a determined one is, by :data:`SURE` standard errors."""
UNDETERMINED = 0.5
"""Ratio of a standard error to that of the prior from which the motion determines nothing."""
FRICTION_VARIES = 0.1
"""Standard deviation of the mean change of friction since the calibration, as a share."""
VAGUE_TILT = 5.0
"""Tilt that a good line excludes [deg]."""
FRICTION = (0.3, 1.0)
"""Coulomb friction above which the line is doubtful and bad, as a share of the effort limit."""
DETERMINED = 3.0
"""Standard errors above which a coefficient of friction is more than its uncertainty."""
BIAS = (0.5, 1.0)
"""Bias above which the line is doubtful and bad, as a share of the contact threshold."""
WINDOW = 20
"""Number of filtered samples, a second or two, over which the residual is averaged to a bias."""
COARSE = 0.25
"""Step of rounded efforts that is noted, as a share of the contact threshold."""
RELEVANT = 0.5
"""RMS residual that a running detector has explained, as a share of the contact threshold."""
FEWEST = 50
"""Smallest number of samples that are diagnosed beside a detector."""
LEAST_LEVER = 1e-6
"""Lever of a mass below which it is rounding error [N·m or N per kg]."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """The diagnosis of the efforts and the description of an arm."""

    lines: tuple[Line, ...]
    """About efforts, order of joints, payload, masses, mounting, motor inertia, delay, friction,
    bias."""
    efforts: tuple[JointEffort, ...]
    """The effort of each joint, in the order of ``model.joint_names``."""
    causes: tuple[tuple[str, tuple[int, ...]], ...]
    """The causes in the order of the search; see :class:`~.causes.Hypothesis`."""
    touched: float
    """Share of the samples that are left out as apparent contacts."""
    outlying: tuple[str, ...]
    """Joints whose residual is an outlier in these samples."""
    recorded: tuple[Array, Array]
    """Torque of the described arm and recorded effort, (n, nv) each, of the other samples, without
    the part that friction explains [N·m or N, if the effort is a torque]."""


def finish(steps: Generator[None, None, Result]) -> Result:
    """Run a generator to its end and return its return value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Result", end.value)


def diagnose(
    motions: Sequence[RecordedMotion],
    model: Model,
    parameters: DetectorParameters,
    exchanged: Callable[[int, int], Evidence | None] | None = None,
) -> Diagnosis:
    """Return the diagnosis of motions that are mostly free of contact.

    Args:
        motions: the motions, ``tau`` as ``parameters.effort_kind`` declares.
        model: the robot, with corrections if there are any.
        parameters: kind and gain of the efforts, friction, and contact thresholds of the detector.
        exchanged: returns the evidence with the names of two joints, given by their indices in v,
            exchanged; by default those are not searched for.

    Raises:
        RecordingError: if no part is long enough, 0.5 s at usual rates.
        ParameterError: for a per-joint parameter of the wrong length.
    """
    evidence = gather(motions, model, parameters)
    return finish(diagnose_in_steps(evidence, motions, model, parameters, exchanged))


def diagnose_in_steps(
    evidence: Evidence,
    motions: Sequence[RecordedMotion],
    model: Model,
    parameters: DetectorParameters,
    exchanged: Callable[[int, int], Evidence | None] | None = None,
) -> Generator[None, None, Diagnosis]:
    """Yield after each hypothesis, and return the diagnosis; see :func:`diagnose`.

    ``evidence`` is that of the motions, which also tell which efforts are measured.
    """
    alive, _ = measured(motions)
    level = default_contact_thresholds(model)
    has_gravity = parameters.effort_kind != "torque_without_gravity"
    kept = np.ones(evidence.t.size, dtype=bool)
    joints = np.zeros(model.nv, dtype=bool)
    swapped: tuple[int, int] | None = None
    for _ in range(PASSES):
        search = Search(evidence.rows(kept), level, alive, has_gravity=has_gravity)
        fit = yield from search.run()
        if exchanged is not None and swapped is None and _is_unclear(fit, level, alive):
            swapped, evidence, search, fit = _exchanged(
                search, fit, evidence, kept, exchanged, level, alive, has_gravity
            )
        by_joint = _outlying(search, fit, level, alive)
        out = _padded(np.asarray(by_joint.any(axis=1)))
        more = kept.copy()
        more[np.flatnonzero(kept)[out]] = False
        if not out.any() or 1.0 - more.mean() > MOST_TOUCHED:
            break
        kept = more
        joints |= by_joint.any(axis=0)
        yield
    efforts = joint_efforts(model, parameters, motions, search, fit, level)
    yield
    used = with_default_thresholds(parameters, model).for_joints("contact_threshold", model.nv)
    lines = [
        *effort_lines(efforts),
        _order(model, fit, swapped),
        *_coarse(model, parameters, motions, used),
        *_noisy(model, parameters, motions),
    ]
    if alive.any():
        lines.append(_payload(model, search, fit))
        lines += _masses(search, fit)
        lines.append(_mounting(search, fit))
        lines += _rotors(model, search, fit)
        lines += _delay(search, fit, parameters.velocity_delay) or _late_velocity(
            velocity_delay(motions, model), parameters.velocity_delay
        )
        lines.append(_friction(model, efforts))
        lines.append(_bias(model, search, fit, efforts, used))
    causes = fit.hypothesis.causes
    if swapped is not None:
        causes = (*causes, ("swapped joints", swapped))
    first = model.nv - len(model.joint_names)
    return Diagnosis(
        lines=tuple(lines),
        efforts=efforts,
        causes=causes,
        touched=float(1.0 - kept.mean()),
        outlying=tuple(model.joint_names[i - first] for i in np.flatnonzero(joints)),
        recorded=search.projected(),
    )


def _is_unclear(fit: Fit, level: Array, alive: NDArray[np.bool_]) -> bool:
    """Return whether a joint's misfit is beyond what an arm as described shows."""
    share = fit.sigma / (level * np.abs(fit.hypothesis.scale))
    return bool((share > UNEXPLAINED)[alive].any()) or len(fit.hypothesis.causes) > 1


UNEXPLAINED = 0.1
"""Misfit from which exchanged names of joints are tried, as a share of the contact threshold."""
EXCHANGED_PRICE = 5.0
"""Price of exchanged names of two joints, as of :class:`~.causes.Cause`."""


def _exchanged(
    search: Search,
    fit: Fit,
    evidence: Evidence,
    kept: NDArray[np.bool_],
    exchanged: Callable[[int, int], Evidence | None],
    level: Array,
    alive: NDArray[np.bool_],
    has_gravity: bool,
) -> tuple[tuple[int, int] | None, Evidence, Search, Fit]:
    """Return the exchanged pair of joints that explains more than all other causes, if any."""
    best: tuple[tuple[int, int] | None, Evidence, Search, Fit] = None, evidence, search, fit
    highest = search.comparable(fit.hypothesis) + EXCHANGED_PRICE
    for i, j in combinations(np.flatnonzero(alive).tolist(), 2):
        other = exchanged(i, j)
        if other is None or other.t.size != kept.size:
            continue
        # Other dynamics of the same efforts; the causes found before may have been excuses.
        trial = Search(other.rows(kept), level, alive, has_gravity=has_gravity)
        plain = trial.base()
        if trial.comparable(plain) > highest:
            highest = trial.comparable(plain)
            best = (i, j), other, trial, trial.fit(plain)
    return best


def _outlying(
    search: Search, fit: Fit, level: Array, alive: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return where the residual of each joint looks like contact, (n, nv) bool."""
    residual = search.residual(fit)
    centre = np.median(residual, axis=0)
    spread = 1.4826 * np.median(np.abs(residual - centre), axis=0)
    dry = np.array([abs(search.values(fit, f"friction {i}")[0][0]) for i in range(level.size)])
    least = np.abs(fit.hypothesis.scale) * (OUTLYING_SHARE * level + STICKING * dry)
    limit = np.maximum(OUTLYING * spread, least)
    return np.asarray((np.abs(residual - centre) > limit) & alive)


def _padded(out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the samples in ``out`` (n,) and :data:`PAD` neighbours on both sides, (n,) bool."""
    near = np.convolve(out, np.ones(2 * PAD + 1))[PAD : PAD + out.size]
    return np.asarray(near > 0.5)  # noqa: PLR2004 - counts: one or more


def _order(model: Model, fit: Fit, swapped: tuple[int, int] | None) -> Line:
    pairs = [
        (joints, "efforts") for kind, joints in fit.hypothesis.causes if kind == SwappedEfforts.kind
    ]
    pairs += [(swapped, "names")] if swapped is not None else []
    if not pairs:
        return Line("order of joints", "good", "no two joints are swapped", {"swapped": []})
    named = [tuple(model.joint_names[i - model.nv] for i in joints) for joints, _ in pairs]
    said = [
        f"the {what} of {a} and {b} are exchanged"
        for (a, b), (_, what) in zip(named, pairs, strict=True)
    ]
    values = {"swapped": [list(pair) for pair in named]}
    return Line("order of joints", "bad", "; ".join(said) + "; fix the driver", values)


def _coarse(
    model: Model,
    parameters: DetectorParameters,
    motions: Sequence[RecordedMotion],
    threshold: Array,
) -> list[Line]:
    """Return a line about efforts that are rounded to large steps; none if no step is large."""
    gain = np.abs(parameters.for_joints("effort_gain", model.nv))
    tau = np.concatenate([motion.tau for motion in motions])
    step = gain * np.array([effort_step(column) for column in tau.T])
    i = int(np.argmax(step / threshold))
    if step[i] <= COARSE * threshold[i]:
        return []
    joint = model.joint_names[i - model.nv]
    text = (
        f"the effort of {joint} is rounded to {step[i]:.2g} {model.torque_unit(i)}, "
        f"{step[i] / threshold[i]:.0%} of its contact threshold: weaker pushes are lost; "
        f"publish it with more digits"
    )
    return [Line("resolution", "doubtful", text, {"step": float(step[i]), "joint": joint})]


def _weighed(model: Model, search: Search) -> str:
    """Return the joints that weigh a payload best, as text for a remedy."""
    L = search.layout
    size = np.abs(search.evidence.columns[:, :, L.payload.start]).max(axis=0)
    best = [i for i in np.argsort(-size)[:2] if size[i] > LEAST_LEVER]
    if not best:
        return "the joints that lift the last link"
    return listed([model.joint_names[i - model.nv] for i in sorted(best)])


NOISIER = 2.0
"""Ratio of the noise of an effort to that of the calibration from which it is named."""


def _noisy(
    model: Model, parameters: DetectorParameters, motions: Sequence[RecordedMotion]
) -> list[Line]:
    """Return a line about efforts that are noisier than in the calibration; none if none is."""
    period = float(np.median(np.concatenate([np.diff(motion.t) for motion in motions])))
    if not 1.0 / OTHER_RATE < parameters.calibrated_rate * period < OTHER_RATE:
        return []  # not calibrated, or noise and motion are not told apart as in the calibration
    gain = np.abs(parameters.for_joints("effort_gain", model.nv))
    ratio = gain * torque_noise(motions) / parameters.for_joints("torque_noise", model.nv)
    i = int(np.argmax(ratio))
    if not ratio[i] > NOISIER:
        return []
    joint = model.joint_names[i - model.nv]
    text = (
        f"the effort of {joint} is {ratio[i]:.2g} times as noisy as in the calibration: contacts "
        f"may be false; look for the cause (filter, cable, drive), or calibrate again"
    )
    return [Line("noise", "doubtful", text, {"noise": float(ratio[i]), "joint": joint})]


def _payload(model: Model, search: Search, fit: Fit) -> Line:
    link = model.joint_links[-1]
    is_found = fit.hypothesis.has("payload")
    wider = fit if is_found else search.gain(fit, Payload)[1]
    theta, errors = search.payload(wider)
    mass, error = float(theta[0]), float(errors[0])
    values: dict[str, object] = {"mass": mass, "deviation": error}
    if error > UNDETERMINED * HEAVY:
        text = f"not determined by this motion: no joint measures the weight of a mass at {link}"
        values = {"mass": None, "deviation": None}
        return Line("payload", "doubtful", text, values, is_finding=False)
    if is_found:
        if fit.hypothesis.has(Masses.kind):
            # Hardly any motion tells both from a payload of another size alone.
            alone = float(search.payload(search.without(fit, Masses))[0][0])
            values["deviation"] = error = math.hypot(error, mass - alone)
        com = theta[1:] / mass
        where = f"at [{com[0]:.3f} {com[1]:.3f} {com[2]:.3f}] m of {link}"
        size = f"{_kilograms(mass, error)} {where}"
        values |= {"com": com.tolist(), "link": link}
        text = f"the arm carries {size} that the model lacks: give the URDF with the hand, or "
        text += "payload_mass and payload_com"
        if mass < 0.0:
            text = f"the model contains {size} that the arm does not carry: correct payload_mass, "
            text += "or give the URDF without the hand"
        return Line("payload", "bad", text, values)
    least = max(LEAST_MASS, SHARE_OF_MASS * model.mass)
    size = f"{mass:+.2f} ± {error:.2g} kg at {link}"
    if abs(mass) + SURE * error <= least:
        return Line("payload", "good", f"none missing: {size}", values)
    text = f"not determined by this motion: {size}; move {_weighed(model, search)} through 30° or "
    text += "more in both directions"
    return Line("payload", "doubtful", text, values, is_finding=False)


def _kilograms(mass: float, error: float) -> str:
    """Return the size of a mass with its standard error, and a word if that is not small."""
    text = f"{abs(mass):.2f} ± {error:.2g} kg"
    if SURE * error > EXACT * abs(mass):
        text += f" (not determined to better than {SURE * error:.1g} kg)"
    return text


def _masses(search: Search, fit: Fit) -> list[Line]:
    """Return the line about masses of another arm, or a gain of all efforts; none without.

    Both scale the torque of the arm, and only a gain scales friction, which varies itself by
    :data:`FRICTION_VARIES`: the line names what this excludes least, or both. Beside a payload
    masses are doubtful.
    """
    if not fit.hypothesis.has(Masses.kind):
        return []
    size, error = search.size(fit)
    masses, deviation = 1.0 / size, error / size**2
    values: dict[str, object] = {"masses": masses, "deviation": deviation, "gain": 1.0 / size}
    if fit.hypothesis.has(Payload.kind):
        text = (
            f"the masses of the description are {masses:.2f} ± {deviation:.2g} times those of this "
            f"arm, or they are right and the payload is another: declare the payload or take it "
            f"off, and check again"
        )
        return [Line("masses", "doubtful", text, values | {"cause": "unknown"})]
    of_masses = (
        f"the masses of the description are {masses:.2f} ± {deviation:.2g} times those of this "
        f"arm, as of another arm or another version of it: use the URDF of this arm, or run "
        f"rbd-control calibrate, which corrects masses"
    )
    of_gain = (
        f"all efforts are {size:.2f} ± {error:.2g} times the torque: multiply effort_gain by "
        f"{masses:.2f}"
    )
    found = search.friction_ratio(fit)
    if found is None:
        text = f"{of_masses}; or {of_gain} (without calibrated friction the motion cannot tell)"
        return [Line("masses", "bad", text, values | {"cause": "unknown"})]
    ratio, spread = found
    seen = f"friction is {ratio:.2f} ± {spread:.2g} times that of the parameters"
    values |= {"friction": ratio}
    fits_masses, fits_gain = (
        abs(ratio - expected) < SURE * math.hypot(FRICTION_VARIES * expected, spread)
        for expected in (1.0, size)
    )
    if fits_masses == fits_gain:
        text = f"{of_masses}; or {of_gain} ({seen}, which cannot tell)"
        return [Line("masses", "bad", text, values | {"cause": "unknown"})]
    cause, text = ("masses", of_masses) if fits_masses else ("gain", of_gain)
    return [Line("masses", "bad", f"{text} ({seen})", values | {"cause": cause})]


def _mounting(search: Search, fit: Fit) -> Line:
    described = search.evidence.field
    if not described.any():
        text = "the model has no gravity: mounting not determined"
        return Line("mounting", "doubtful", text, is_finding=False)
    is_found = fit.hypothesis.has("tilt")
    field, error = search.field(fit if is_found else search.gain(fit, Tilt)[1])
    angle = _angle(field, described)
    error = float(np.degrees(error))
    values: dict[str, object] = {"tilt": angle, "deviation": error}
    if np.radians(error) * np.linalg.norm(described) > UNDETERMINED * TILTED:
        text = "not determined by this motion: no joint measures a component of gravity"
        values = {"tilt": None, "deviation": None}
        return Line("mounting", "doubtful", text, values, is_finding=False)
    if is_found:
        shown = ", ".join(f"{g:.2f}" for g in field)
        values["gravity"] = field.tolist()
        text = (
            f"the base is tilted by {angle:.1f} ± {error:.1g}° against the description: mount it "
            f"upright, or set gravity to [{shown}]"
        )
        return Line("mounting", "bad", text, values)
    size = f"the direction of gravity is {angle:.1f} ± {error:.1g}° off"
    if angle + SURE * error <= VAGUE_TILT:
        return Line("mounting", "good", f"as described: {size}", values)
    text = f"not determined by this motion: {size}; move the joints that carry weight through 30°"
    return Line("mounting", "doubtful", text, values, is_finding=False)


def _angle(field: Array, described: Array) -> float:
    """Return the angle between two gravity vectors [deg]."""
    cosine = field @ described / np.linalg.norm(field) / np.linalg.norm(described)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))


def _rotors(model: Model, search: Search, fit: Fit) -> list[Line]:
    inertia = {
        model.joint_names[i - model.nv]: search.rotor(fit, i)
        for i in fit.hypothesis.joints("rotor")
    }
    if not inertia:
        return []
    shown = ", ".join(f"{joint} {J:.2g}" for joint, J in inertia.items())
    text = (
        f"the description lacks inertia that turns with the joint, {shown} kg·m² or kg: set "
        f"rotor_inertia, or run rbd-control calibrate"
    )
    return [Line("motor inertia", "doubtful", text, {"rotor_inertia": inertia})]


def _delay(search: Search, fit: Fit, corrected: float) -> list[Line]:
    """Return at most one line, about a delay that ``velocity_delay`` does not correct."""
    for kind, remedy in DELAYS.items():
        if fit.hypothesis.has(kind):
            (value,), (error,) = search.values(fit, f"cause {kind}")
            known = corrected if kind == "velocity late" else -corrected
            if abs(value - known) < max(SURE * error, CORRECTED):
                continue
            values: dict[str, object] = {
                "kind": kind,
                "delay": float(value),
                "deviation": float(error),
            }
            which = kind.split()[0]
            text = f"the {which} is {1e3 * value:.0f} ± {1e3 * error:.1g} ms later than it should "
            if value < 0.0:
                text = f"the {which} is {-1e3 * value:.0f} ± {1e3 * error:.1g} ms too early "
            return [Line("delay", "doubtful", f"{text}be: {remedy}" if value > 0 else text, values)]
    return []


def _late_velocity(late: Delay, corrected: float) -> list[Line]:
    """Return a line about velocities that come later than the positions; none if they do not."""
    if not late.value - corrected > max(LATE, DETERMINED * late.error):
        return []
    values: dict[str, object] = {
        "kind": "velocity late",
        "delay": late.value,
        "deviation": late.error,
    }
    text = f"the velocity is {1e3 * late.value:.0f} ms later than the change of the position: "
    return [Line("delay", "doubtful", text + DELAYS["velocity late"], values)]


DELAYS = {
    "velocity late": "starts and stops look like contacts; run rbd-control calibrate, which finds "
    "velocity_delay, or filter the velocity less",
    "effort late": "starts and stops look like contacts; run rbd-control calibrate, which finds "
    "velocity_delay, or filter the effort less in the driver",
}
"""Remedy of each kind of delay."""
LATE = 0.005
"""Delay of the velocity against the positions, beyond ``velocity_delay``, that is named [s]."""
CORRECTED = 0.002
"""Error of ``velocity_delay`` up to which a delay counts as corrected [s]."""


def _is_determined(one: JointEffort) -> bool:
    """Return whether the Coulomb friction of a joint exceeds its uncertainty by far."""
    return one.is_torque and abs(one.friction[0]) > DETERMINED * one.coulomb_deviation


def _friction(model: Model, efforts: Sequence[JointEffort]) -> Line:
    first = model.nv - len(efforts)
    limit = limits_or(model.effort_limit, np.inf)[first:]
    coulomb = np.array([one.friction[0] if _is_determined(one) else 0.0 for one in efforts])
    if not coulomb.any():
        text = "no Coulomb friction is seen, or the motion does not determine it"
        return Line("friction", "good", text, {"largest_share": 0.0})
    shares = coulomb / limit
    i = int(np.argmax(shares if shares.any() else coulomb))
    share = float(shares[i])
    unit = model.torque_unit(first + i)
    text = f"on {efforts[i].joint} {coulomb[i]:.2f} {unit} of Coulomb friction"
    if np.isfinite(limit[i]):
        text += f", {share:.0%} of its effort limit, the largest share of all joints"
    return Line("friction", graded(share, FRICTION), text, {"largest_share": share})


def _bias(
    model: Model, search: Search, fit: Fit, efforts: Sequence[JointEffort], threshold: Array
) -> Line:
    """Return the line about the largest mean residual, without friction, in parts of the motion.

    The static friction of a joint at rest may be any torque up to its Coulomb friction.
    """
    first = model.nv - len(efforts)
    offset = np.array([one.friction[2] for one in efforts])
    scale = np.abs(fit.hypothesis.scale)[first:]
    # The residual is the torque of the model minus the measured torque.
    residual = -search.residual(fit)[:, first:] / scale - offset
    dry = np.where(
        search.evidence.moving[:, first:], 0.0, [abs(one.friction[0]) for one in efforts]
    )
    residual -= np.clip(residual, -dry, dry)
    windows = max(len(residual) // WINDOW, 1)
    means = np.array([part.mean(axis=0) for part in np.array_split(residual, windows)])
    largest = np.abs(means).max(axis=0)
    known = np.array([one.is_torque for one in efforts])
    share = np.where(known, largest / threshold[first:], 0.0)
    i = int(np.argmax(share))
    level, unit = graded(float(share[i]), BIAS), model.torque_unit(first + i)
    is_constant = abs(offset[i]) > 2.0 * np.abs(means[:, i] + offset[i]).max()
    text = (
        f"at most {share[i]:.0%} of the contact threshold, on {efforts[i].joint} "
        f"({largest[i]:.2g} {unit})"
    )
    if level != "good" and is_constant:
        text = (
            f"the residual of {efforts[i].joint} is {-offset[i]:+.2g} {unit} throughout, "
            f"{share[i]:.0%} of its contact threshold: tare the detector at rest, or add "
            f"{offset[i]:+.2g} to its friction_offset"
        )
    elif level != "good":
        text += ": calibrate, or correct the model or the efforts"
    values = {
        "bias": {
            one.joint: [float(low), float(high)]
            for one, low, high in zip(efforts, means.min(0), means.max(0), strict=True)
        }
    }
    return Line("bias over poses", level, text, values, is_finding=is_constant)


PERIOD = 0.02
"""Period of the stored samples [s]; model errors change only as fast as the motion."""


class MotionWatch:
    """Collects samples beside a detector for :func:`diagnose`, one per :data:`PERIOD`.

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

    def remarks(self, detector: ContactDetector) -> tuple[Line, ...]:
        """Return what the collected samples show about the arm; see :meth:`in_steps`."""
        return finish(self.in_steps(detector))

    def in_steps(self, detector: ContactDetector) -> Generator[None, None, tuple[Line, ...]]:
        """Yield after each step; return what the collected samples show about arm and efforts.

        Args:
            detector: its model, parameters and tare (``bias``) are used; it is unchanged.

        Returns:
            The lines of the diagnosis that are not good; empty if the RMS residual of every joint
            is at most :data:`RELEVANT` of its contact threshold, or for too few samples.
        """
        if len(self._samples) < FEWEST:
            return ()
        t, q, v, tau = (np.array(each) for each in zip(*self._samples, strict=True))
        model, parameters = detector.model, detector.parameters
        # A tare is external torque that the efforts do not contain.
        tau = tau + detector.bias / parameters.for_joints("effort_gain", model.nv)
        motion = RecordedMotion("start", t, q, v, tau)
        if not tau.any():
            return effort_lines(unmeasured([motion], model))
        # The motion may contain fewer samples than the detector processes.
        gap = max(parameters.maximum_gap, 1.5 * float(np.median(np.diff(t))))
        parameters = replace(parameters, maximum_gap=gap)
        try:
            evidence = yield from gather_in_steps([motion], model, parameters)
        except RecordingError:
            return ()
        threshold = parameters.for_joints("contact_threshold", model.nv)
        if not (evidence.residual_rms() > RELEVANT * threshold).any():
            return ()
        found = yield from diagnose_in_steps(evidence, [motion], model, parameters)
        return tuple(line for line in found.lines if line.level != "good" and line.is_finding)


LASTED = 2.0
"""Time for which a contact lasts before it is explained, and between two explanations [s]."""
BEFORE = 20.0
"""Time before a contact whose samples are kept [s]."""
MOST_EXPLAINED = 20.0
"""Time after which a contact is not explained any more [s]."""
LEAST_BEFORE = 20
"""Smallest number of filtered samples before the contact, about a second."""
STORED = 2048
"""Number of stored samples: 41 s."""
LIFTED = 1.0
"""Time since the start of the contact after which the arm carries the whole payload [s]."""
LEAST_RESIDUAL = 1e-6
"""Smallest RMS residual before a contact to which the residual since is compared [N·m or N]."""
PICKED_UP = 0.3
"""Time before and after the start of the contact in which the payload may have come [s]."""


class PayloadWatch:
    """Finds out whether an open contact is a payload that the arm has picked up.

    A payload that comes while the detector runs looks like a contact that does not end. The samples
    before it and since are explained together, with the same errors of the description, by a
    payload or a change of friction since its start. The payload is the cause if the evidence says
    so, without a change of friction, and if it leaves no residual beyond :data:`RELEVANT` of a
    contact threshold.

    Args:
        model: the robot.
        parameters: of the detector.
        present: the payload that ``model`` contains; the offered command announces both as one.
    """

    def __init__(
        self,
        model: Model,
        parameters: DetectorParameters,
        present: PayloadParameters | None = None,
    ) -> None:
        self._model, self._parameters = model, parameters
        self._present = present or PayloadParameters()
        self._rows = np.zeros((STORED, 1 + model.nq + 2 * model.nv))  # a ring
        self._columns = np.cumsum([1, model.nq, model.nv])
        self.restart()

    @property
    def is_due(self) -> bool:
        """Whether the open contact has lasted long enough for its next explanation."""
        return self._last >= self._next

    def restart(self) -> None:
        """Forget all samples, as after a reset, a tare, or a change of the model."""
        self._count = 0
        self._since, self._next = math.nan, math.inf
        self._last = self._slot = -math.inf

    def add(self, stamp: float, q: Array, v: Array, tau: Array, is_touched: bool) -> None:
        """Take a sample; the first of each :data:`PERIOD` is kept.

        Args:
            stamp: time of the sample [s]; a step back forgets all samples.
            q, v, tau: positions, velocities, and efforts as published, (nq,) and (nv,).
            is_touched: whether the detector reports a contact.
        """
        if stamp // PERIOD < self._slot:
            self.restart()
        if is_touched == math.isnan(self._since):
            self._since = stamp if is_touched else math.nan
            self._next = stamp + LASTED if is_touched else math.inf
        if stamp // PERIOD == self._slot:
            return
        self._slot, self._last = stamp // PERIOD, stamp
        first, second, third = self._columns
        row = self._rows[self._count % STORED]
        row[0], row[first:second], row[second:third], row[third:] = stamp, q, v, tau
        self._count += 1

    def explain(self, bias: Array) -> Line | None:
        """Return the payload that explains the open contact, or None; see :meth:`in_steps`."""
        return finish(self.in_steps(bias))

    def in_steps(self, bias: Array) -> Generator[None, None, Line | None]:
        """Yield after each step of the computation; return the payload that explains the contact.

        Args:
            bias: external torque that a tare has removed, (nv,) [N·m or N].
        """
        since = self._since
        self._next = self._last + LASTED if self._last - since < MOST_EXPLAINED else math.inf
        rows = self._rows[np.arange(max(self._count - STORED, 0), self._count) % STORED]
        rows = rows[rows[:, 0] > since - BEFORE]
        t, q, v, tau = np.split(rows, self._columns, axis=1)
        tau = tau + bias / self._parameters.for_joints("effort_gain", self._model.nv)
        motion = RecordedMotion("contact", t[:, 0], q, v, tau)
        alive, _ = measured([motion])
        parameters = replace(
            self._parameters, maximum_gap=max(self._parameters.maximum_gap, 2.5 * PERIOD)
        )
        try:
            evidence = yield from gather_in_steps([motion], self._model, parameters)
        except RecordingError:
            return None
        evidence = evidence.rows(np.abs(evidence.t - since) > PICKED_UP)
        before, L = evidence.t < since, evidence.layout
        if before.all() or np.count_nonzero(before) < LEAST_BEFORE:
            return None
        evidence.columns[before, :, L.payload] = 0.0
        evidence.columns[before, :, L.resistance] = 0.0
        search = Search(
            evidence,
            default_contact_thresholds(self._model),
            alive,
            has_gravity=parameters.effort_kind != "torque_without_gravity",
            causes=(Payload, Masses, FrictionSince),
        )
        fit = yield from search.run()
        threshold = parameters.for_joints("contact_threshold", self._model.nv)
        squares = np.square(search.residual(fit))
        left = np.sqrt(squares[~before].mean(axis=0))
        h = fit.hypothesis
        is_payload = h.has("payload") and not h.has("friction since")
        if not is_payload or (left > RELEVANT * threshold).any():
            return None
        line = _picked_up(self._model, search, fit, since, self._present)
        if line is not None:
            carried = squares[evidence.t > since + LIFTED].mean(axis=0)
            free = np.maximum(squares[before].mean(axis=0), LEAST_RESIDUAL**2)
            line.values["growth"] = float(np.sqrt((carried / free).mean()))
        return line


def _picked_up(
    model: Model, search: Search, fit: Fit, since: float, present: PayloadParameters
) -> Line | None:
    """Return the line about a payload since the time ``since`` [s].

    None for a vague or an impossible one, which stands for friction that has changed.
    """
    theta, errors = search.payload(fit)
    mass, com, link = float(theta[0]), theta[1:] / theta[0], model.joint_links[-1]
    if errors[0] > VAGUE_MASS * abs(mass) or np.linalg.norm(com) > FARTHEST:
        return None
    if -mass > model.arrays.mass[model.dof_row[-1]]:  # of the last body with the present payload
        return None
    values = {"mass": mass, "deviation": float(errors[0]), "com": com.tolist(), "since": since}
    place = " ".join(f"{value:.3f}" for value in com)
    size = f"{_kilograms(mass, float(errors[0]))} at [{place}] m"
    if mass < 0.0:
        text = (
            f"the contact since {since:.1f} s looks like a payload that is gone: {size} of {link}"
        )
        return Line("payload", "doubtful", f"{text}; announce the new payload", values)
    text = (
        f"the contact since {since:.1f} s looks like a payload of {size} of {link}: if nothing "
        f"else touches the arm, announce it"
    )
    try:
        text += _command(present.with_point_mass(model, mass, com.tolist()))
    except RbdControlError as error:
        text += f" together with the present payload: {error.message}"
    return Line("payload", "doubtful", text, values)


def _command(payload: PayloadParameters) -> str:
    """Return the command that announces a payload, for the end of a sentence."""
    center = zip("xyz", payload.payload_com, strict=True)
    place = ", ".join(f"{axis}: {value:.3f}" for axis, value in center)
    moments = zip(("xx", "yy", "zz", "xy", "xz", "yz"), payload.payload_inertia, strict=True)
    inertia = "".join(f", i{axes}: {value:.4f}" for axes, value in moments if value)
    return (
        f": ros2 topic pub --once --qos-durability transient_local payload "
        f"geometry_msgs/msg/InertiaStamped '{{header: {{frame_id: {payload.payload_link}}}, "
        f"inertia: {{m: {payload.payload_mass:.2f}, com: {{{place}}}{inertia}}}}}'"
    )


MOVED = 0.005
"""Change of a gripper's position that is a movement, within :data:`GRIPPER_WINDOW` [rad or m]."""
GRIPPER_WINDOW = 0.5
"""Time in which the position of a gripper changes by :data:`MOVED`, or the gripper rests [s]."""
GRASPED = 10.0
"""Longest time from the end of a gripper's movement to the contact of what it grasped [s]."""
GRIPPER_SILENCE = 1.0
"""Age of a gripper's last position above which nothing is taken [s]."""


MOST_GROWTH = 2.2
"""Largest ratio of the residual with a payload that is taken to the residual before its contact.

It is the root mean square over the joints. Payloads have at most 2.0. A hand that presses a Panda
arm down by 8 N to 30 N, with a standard deviation of 10 % that changes within 0.5 s, has at least
2.3; a hand whose force changes more slowly may have less.
"""


class GraspWatch:
    """Decides whether a named payload was grasped, and when the gripper has released it.

    The payload was grasped if the contact that it explains began after a movement of the gripper,
    at most :data:`GRASPED` later, and the gripper rests since. It must be named twice, and the
    second time, :data:`LASTED` later, have the same mass within :data:`SURE` standard errors or
    :data:`EXACT`, and a residual like that before the contact: a hand hardly holds a force as
    constant as a weight while the arm moves. A hand that does, and presses straight down, is not
    distinguished from a payload. Each movement is one grasp.

    Any further movement, also a firmer grip, releases the payload that was taken. A gripper that
    has been silent moved if it comes back elsewhere. A single wrong position is no movement.
    """

    def __init__(self) -> None:
        self._heard: deque[float] = deque(maxlen=3)
        self._recent: deque[tuple[float, float]] = deque()
        """Times and medians of three positions in :data:`GRIPPER_WINDOW`, and the last before."""
        self._rests_since = -math.inf
        self._is_moving = False
        self._named: Line | None = None
        self._taken: tuple[PayloadParameters, PayloadParameters] | None = None
        self._is_released = False

    @property
    def last(self) -> float:
        """Time of the last position [s]; minus infinity before the first."""
        return self._recent[-1][0] if self._recent else -math.inf

    @property
    def taken(self) -> PayloadParameters | None:
        """The payload that was taken and not released; None if there is none."""
        return None if self._taken is None else self._taken[0]

    def look(self, position: float, now: float) -> None:
        """Take a position of the gripper; ignore NaN, and a position that follows too soon.

        Args:
            position: its position [rad or m].
            now: time on the clock of the arm's samples [s]; a step back ends a possible grasp.
        """
        if now < self.last:
            self._rests_since = -math.inf
            self._recent = deque([(now - PERIOD, self._recent[-1][1])])
        if not math.isfinite(position) or now - self.last < PERIOD:
            return
        self._heard.append(position)
        self._recent.append((now, sorted(self._heard)[len(self._heard) // 2]))
        while len(self._recent) > 2 and self._recent[1][0] <= now - GRIPPER_WINDOW:
            self._recent.popleft()
        positions = [each for _, each in self._recent]
        was_moving, self._is_moving = self._is_moving, max(positions) - min(positions) > MOVED
        if self._is_moving:
            self._is_released = True
        elif was_moving:
            self._rests_since = self._recent[0][0]

    def is_grasped(self, line: Line, now: float) -> bool:
        """Return whether the named payload of a contact may have been grasped.

        Args:
            line: from :class:`PayloadWatch`.
            now: present time on the clock of the arm's samples [s].
        """
        waited = line.values["since"] - self._rests_since
        is_heard = now - self.last <= GRIPPER_SILENCE
        return (
            line.values["mass"] > 0.0
            and 0.0 <= waited <= GRASPED
            and not self._is_moving
            and is_heard
        )

    def is_confirmed(self, line: Line) -> bool:
        """Return whether the grasped payload of a contact has now been named twice alike.

        A residual beyond :data:`MOST_GROWTH` ends the possible grasp.
        """
        before, self._named = self._named, line
        if line.values["growth"] > MOST_GROWTH:
            self._rests_since = -math.inf
            return False
        if before is None or before.values["since"] != line.values["since"]:
            return False
        mass, former = line.values["mass"], before.values["mass"]
        error = math.hypot(line.values["deviation"], before.values["deviation"])
        return bool(abs(mass - former) <= max(SURE * error, EXACT * mass))

    def take(self, payload: PayloadParameters, former: PayloadParameters) -> None:
        """Remember that a payload was taken in place of the former one; the grasp is used up."""
        self._taken, self._is_released = (payload, former), False
        self._rests_since, self._named = -math.inf, None

    def put_back(self, present: PayloadParameters) -> PayloadParameters | None:
        """Return, once, the payload to put back because the gripper has moved.

        Args:
            present: the present payload. If it is not the one that was taken, another was
                announced, and it stays.

        Returns:
            The payload before the taken one; None if there is nothing to put back.
        """
        if self._taken is None or not (self._is_released or present != self._taken[0]):
            return None
        (taken, former), self._taken = self._taken, None
        return former if present == taken else None


FARTHEST = 0.5
"""Largest distance of the centre of a payload from the frame of the last link [m]."""
VAGUE_MASS = 0.25
"""Largest ratio of the standard error of a payload to its mass with which it is offered."""
