"""Lines of the check about the arm: swapped joints, payload, mounting, rotors, friction, bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.efforts import JointEffort
from rbd_control.check.explanations import (
    EFFORT,
    LEAST_MASS,
    NEED,
    SIGNIFICANT,
    Evidence,
    Explanation,
    field_fit,
    payload_fit,
    tilt,
    tilt_deviation,
)
from rbd_control.check.findings import Line
from rbd_control.check.timing import graded
from rbd_control.dynamics import Model
from rbd_control.joint_states.plausibility import limits_or

Array = NDArray[np.float64]

FRICTION = (0.3, 1.0)
"""Coulomb friction above which the line is doubtful and bad, as a fraction of the effort limit."""

DETERMINED = 3.0
"""Standard deviations above which the Coulomb friction of a joint is more than its uncertainty."""
VAGUE_PAYLOAD = 0.1
"""Payload that the recording does not exclude from which the line is doubtful, as a fraction of the
moving mass; at least :data:`~.explanations.LEAST_MASS`."""
BIAS = (0.5, 1.0)
"""Bias above which the line is doubtful and bad, as a fraction of the contact threshold."""
WINDOW = 20
"""Number of filtered samples, a second or two, over which the residual is averaged to a bias."""


def arm_lines(
    model: Model,
    found: Sequence[Explanation],
    evidence: Evidence,
    efforts: Sequence[JointEffort],
    threshold: Array,
) -> tuple[Line, ...]:
    """Return the findings about the arm, each with a level and a text.

    They concern swapped joints, payload, mounting, missing motor inertia (left out if none is
    missing), friction, and bias. Without a measured effort only swapped joints and motor inertia
    are reported.

    Args:
        model: the robot, as described.
        found: the explanations that :func:`~rbd_control.check.explanations.explain_in_steps`
            accepted.
        evidence: the filtered samples, corrected by these explanations.
        efforts: the result for the effort of each joint, in the order of ``model.joint_names``.
        threshold: contact threshold of each joint, (nv,) [N·m or N].
    """
    alive = np.zeros(model.nv, dtype=bool)
    alive[model.nv - len(efforts) :] = [one.kind != "not measured" for one in efforts]
    lines = [_swapped(model, found)]
    if alive.any():
        lines.append(_payload(model, found, evidence, alive))
        lines.append(_mounting(model, found, evidence, alive))
    lines += _rotors(model, found)
    if alive.any():
        lines.append(_friction(model, efforts))
        lines.append(_bias(model, evidence, efforts, threshold))
    return tuple(lines)


def _swapped(model: Model, found: Sequence[Explanation]) -> Line:
    pairs = [one for one in found if one.kind.startswith("swapped")]
    if not pairs:
        return Line("order of joints", "good", "no two joints are swapped", {"swapped": []})
    said = []
    for one in pairs:
        a, b = (model.joint_names[i - model.nv] for i in one.joints)
        what = "the efforts of" if one.kind == "swapped effort" else "the names of"
        said.append(f"{what} {a} and {b} are exchanged")
    values = {"swapped": [[model.joint_names[i - model.nv] for i in one.joints] for one in pairs]}
    return Line("order of joints", "bad", "; ".join(said) + "; fix the driver", values)


def _payload(
    model: Model, found: Sequence[Explanation], evidence: Evidence, alive: NDArray[np.bool_]
) -> Line:
    link = model.joint_links[-1]
    theta, deviation = payload_fit(evidence, alive)
    spread = float(deviation[0])
    known = next((one.values for one in found if one.kind == "payload"), None)
    if known is None and not np.isfinite(spread):
        text = f"not determined by this motion: no joint measures the weight of a mass at {link}"
        return Line("payload", "doubtful", text, {"mass": None, "deviation": None})
    if known is None:
        text = f"none missing: {theta[0]:+.2f} ± {spread:.2g} kg at {link}"
        fitted = {"mass": float(theta[0]), "deviation": spread}
        if SIGNIFICANT * spread > max(LEAST_MASS, VAGUE_PAYLOAD * model.mass):
            return Line("payload", "doubtful", text + "; move the arm more", fitted)
        return Line("payload", "good", text, fitted)
    mass, com = float(known[0]), known[1:] / known[0]
    where = f"at [{com[0]:.3f} {com[1]:.3f} {com[2]:.3f}] m of {link}"
    values = {"mass": mass, "deviation": spread, "com": com.tolist(), "link": link}
    size = f"{abs(mass):.2f} ± {spread:.2g} kg {where} ({abs(mass) / spread:.0f} σ)"
    if mass > 0.0:
        remedy = "give the URDF with the hand, or payload_mass and payload_com"
        text = f"the arm carries {size} that the model lacks: {remedy}"
    else:
        text = (
            f"the model contains {size} that the arm does not carry: give the URDF without the hand"
        )
    return Line("payload", "bad", text, values)


def _mounting(
    model: Model, found: Sequence[Explanation], evidence: Evidence, alive: NDArray[np.bool_]
) -> Line:
    field = np.array(model.arrays.gravity, dtype=float)
    size = float(np.linalg.norm(field))
    if size == 0.0:
        return Line("mounting", "doubtful", "the model has no gravity: mounting not determined")
    fitted, deviation = field_fit(evidence, alive)
    known = next((one.values for one in found if one.kind == "tilt"), None)
    spread = tilt_deviation(deviation, field)
    if not np.isfinite(spread):
        text = "not determined by this motion: no joint measures a component of gravity"
        return Line("mounting", "doubtful", text, {"tilt": None, "deviation": None})
    angle = tilt(fitted if known is None else known, field)
    values = {"tilt": angle, "deviation": spread}
    if known is None:
        text = f"as described: the direction of gravity is {angle:.1f} ± {spread:.1g}° off"
        if SIGNIFICANT * spread > 10.0:  # noqa: PLR2004 - degrees
            return Line("mounting", "doubtful", text + "; move the arm more", values)
        return Line("mounting", "good", text, values)
    shown = ", ".join(f"{g:.2f}" for g in known * size / np.linalg.norm(known))
    values["gravity"] = known.tolist()
    text = (
        f"the base is tilted by {angle:.1f} ± {spread:.1g}° against the description: mount it "
        f"upright, or set gravity to [{shown}]"
    )
    return Line("mounting", "bad", text, values)


def _rotors(model: Model, found: Sequence[Explanation]) -> list[Line]:
    inertia = {
        model.joint_names[i - model.nv]: float(one.values[0])
        for one in found
        if one.kind == "rotor"
        for i in one.joints
    }
    if not inertia:
        return []
    shown = ", ".join(f"{joint} {J:.2g}" for joint, J in inertia.items())
    text = (
        f"the description lacks inertia that turns with the joint, {shown} kg·m² or kg: set "
        f"rotor_inertia, or run rbd-control calibrate"
    )
    return [Line("motor inertia", "doubtful", text, {"rotor_inertia": inertia})]


def _is_determined(one: JointEffort) -> bool:
    """Return whether the Coulomb friction of a joint exceeds its uncertainty by far."""
    return one.is_torque and abs(one.friction[0]) > DETERMINED * one.coulomb_deviation


def _friction(model: Model, efforts: Sequence[JointEffort]) -> Line:
    limit = limits_or(model.effort_limit, np.inf)[model.nv - len(efforts) :]
    coulomb = np.array([one.friction[0] if _is_determined(one) else 0.0 for one in efforts])
    if not coulomb.any():
        text = "no Coulomb friction is seen, or the motion does not determine it"
        return Line("friction", "good", text, {"largest_share": 0.0})
    shares = coulomb / limit
    i = int(np.argmax(shares if shares.any() else coulomb))
    share = float(shares[i])
    text = f"Coulomb friction {coulomb[i]:.2g} N·m or N"
    text += f" on {efforts[i].joint}" if coulomb[i] else ""
    text += f", {share:.0%} of the effort limit" if np.isfinite(limit[i]) else ", without limit"
    return Line("friction", graded(share, FRICTION), text, {"largest_share": share})


def _bias(
    model: Model, evidence: Evidence, efforts: Sequence[JointEffort], threshold: Array
) -> Line:
    """Return the line about the largest mean residual, without friction, in parts of the motion."""
    first = model.nv - len(efforts)
    rest = (evidence.raw[..., EFFORT] - evidence.raw[..., NEED])[:, first:]
    moving = np.array([(*one.friction[:2], 0.0) for one in efforts])
    # The residual is the torque of the model minus the measured torque.
    residual = np.einsum("nif,if->ni", evidence.friction[:, first:], moving) - rest
    windows = max(len(residual) // WINDOW, 1)
    means = np.array([part.mean(axis=0) for part in np.array_split(residual, windows)])
    largest = np.abs(means).max(axis=0)
    known = np.array([one.is_torque for one in efforts])
    share = np.where(known, largest / threshold[first:], 0.0)
    i = int(np.argmax(share))
    level = graded(float(share[i]), BIAS)
    text = (
        f"at most {largest[i]:.2g} N·m or N on {efforts[i].joint}, {share[i]:.0%} of its contact "
        f"threshold"
    )
    if level != "good":
        text += ": calibrate, or correct the model or the efforts"
    values = {
        "bias": {
            one.joint: [float(low), float(high)]
            for one, low, high in zip(efforts, means.min(0), means.max(0), strict=True)
        }
    }
    return Line("bias over poses", level, text, values)
