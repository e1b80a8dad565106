"""The report of ``rbd-control calibrate``: residuals, friction, thresholds and gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.identification import Calibration, DriveGain, RecordedMotion
from rbd_control.reports.curves import Curves
from rbd_control.reports.page import (
    Analysed,
    Curve,
    Page,
    Panel,
    PanelGrid,
    Part,
    Row,
    Section,
    Span,
    Table,
    TimePlots,
    count,
    number,
    of_units,
)
from rbd_control.reports.replay_page import ratio_panels

Array = NDArray[np.float64]
Json = Mapping[str, Any]

MOST_POINTS = 1500
"""Maximum number of plotted points of measured friction per joint."""

_GRID = 201
"""Number of points of the plotted curve of fitted friction."""


def calibration_page(
    found: Json,
    calibration: Calibration,
    motions: Sequence[RecordedMotion],
    analysed: Analysed,
    more: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return the report of a calibration.

    Args:
        found: the JSON of the calibration
            (:func:`~rbd_control.cli.calibrate.calibration_values`), the source of all
            numbers.
        calibration: the calibration, the source of the curves.
        motions: the motions of the calibration, the source of the velocities.
        analysed: the input of the analysis.
        more: further facts to list, as pairs of name and value.
    """
    friction: list[Part] = [friction_table(found)]
    points = friction_points(calibration, motions)
    if points is not None:
        friction.append(_friction_plots(found, calibration, *points))
    gains = (
        [Section("Gains of the drives", (gain_table(calibration.gains, np.inf),))]
        if found["drive_gains"]
        else []
    )
    return Page(
        title="Calibration of the contact detector",
        level="bad" if found["worse"] else "doubtful" if found["warnings"] else "good",
        verdict=_verdict(found),
        warnings=tuple(found["warnings"]),
        notes=(),
        facts=(*analysed.facts(), ("effort", found["effort_kind"].replace("_", " ")), *more),
        sections=(
            Section(
                "Residual before and after",
                (replace(model_table(found), note=MODEL_NOTE), _residual_plots(calibration)),
            ),
            Section("Friction", tuple(friction)),
            Section("Observer and thresholds", (detection_table(found),)),
            *gains,
        ),
    )


def friction_points(
    calibration: Calibration, motions: Sequence[RecordedMotion]
) -> tuple[Array, Array] | None:
    """Return the points for the plots of friction over velocity; None if there are none.

    The residual (estimated external torque) of the identified model is the difference of fitted and
    measured friction, so ``measured = fitted(v) - residual``.

    Args:
        calibration: the calibration of n joints.
        motions: its motions; residuals of motions that are not among them are left out.

    Returns:
        Velocities [rad/s or m/s] and measured friction torques [N·m or N], (m, n) each, with m at
        most :data:`MOST_POINTS`.
    """
    n = len(calibration.joints)
    friction = calibration.parameters.friction(n)
    velocities, torques = [], []
    for name, t, _, residual, _ in calibration.residuals:
        v = _velocities(name, t, motions)
        if v is not None:
            velocities.append(v[:, -n:])
            torques.append(friction.torque(v[:, -n:]) - residual[:, -n:])
    if not velocities:
        return None
    v, torque = np.concatenate(velocities), np.concatenate(torques)
    step = -(-len(v) // MOST_POINTS)
    return v[::step], torque[::step]


def _velocities(name: str, t: Array, motions: Sequence[RecordedMotion]) -> Array | None:
    """Return the velocities (k, nv) at times (k,) of the motion of this name; None without one."""
    for motion in motions:
        rows = np.minimum(np.searchsorted(motion.t, t), motion.t.size - 1)
        if motion.name == name and np.array_equal(motion.t[rows], t):
            return motion.v[rows]
    return None


def _verdict(found: Json) -> str:
    if found["worse"]:
        return f"Do not use this calibration: {found['worse']}."
    joints = found["joints"].values()
    before, after = (
        sum(one[which] ** 2 for one in joints) for which in ("rms_before", "rms_after")
    )
    share = np.sqrt(after / before) if before > 0.0 else 1.0
    alarms = found["false_alarms_per_hour"]
    said = (
        f"{count(len(joints), 'joint')} calibrated from {found['duration']:.0f} s of motion: the "
        f"residual falls to {share:.0%}, and the thresholds imply {alarms:g} false "
        f"alarm{'' if alarms == 1 else 's'} per hour in motions like these"
    )
    return said + ("; read the warnings before you use it." if found["warnings"] else ".")


def _residual_plots(calibration: Calibration) -> TimePlots:
    joints = [joint.joint for joint in calibration.joints]
    n = len(joints)
    curves = Curves(2 * n, budget=0)
    start, spans = 0.0, []
    for k, (_, t, before, after, threshold) in enumerate(calibration.residuals):
        if not t.size:
            continue
        ratios = [x[:, -n:] / threshold[:, -n:] for x in (before, after)]
        curves.add(start + t - t[0], np.concatenate(ratios, axis=1))
        end = start + float(t[-1] - t[0])
        if k % 2:
            spans.append(Span(start, end, "recording"))
        start = end
    times, values = curves.series()
    lines = []
    for i in range(n):
        lines.append(Curve("as described, without friction", times, values[:, i], "before"))
        lines.append(Curve("fitted", times, values[:, n + i], "residual"))
    note = (
        "Residual divided by the new threshold of its joint, one stretch of motion after the "
        "other: lowest and highest value of short intervals."
    )
    return TimePlots(ratio_panels(joints, lines), start, tuple(spans), note)


def _friction_plots(found: Json, calibration: Calibration, v: Array, torque: Array) -> PanelGrid:
    n = v.shape[1]
    reach = np.abs(v).max(axis=0)
    grid = np.linspace(-1.0, 1.0, _GRID)[:, None] * reach
    fitted = calibration.parameters.friction(n).torque(grid)
    panels = tuple(
        Panel(
            joint,
            (
                Curve("measured", v[:, i], torque[:, i], "before", "points"),
                Curve("fitted", grid[:, i], fitted[:, i], "found"),
            ),
            f"velocity [{'m/s' if found['joints'][joint]['unit'] == 'N' else 'rad/s'}]",
            f"friction [{found['joints'][joint]['unit']}]",
        )
        for i, joint in enumerate(found["joints"])
    )
    note = (
        "Measured: torque that the corrected model leaves, filtered by the observer. It deviates "
        "from the fit while the velocity reverses."
    )
    return PanelGrid(panels, note)


def model_table(found: Json) -> Table:
    """Return the residuals and corrections of the model, one row per joint."""
    joints = found["joints"].values()
    is_corrected = any(one["mass_correction"] or one["centre_correction"] for one in joints)

    def mass(one: Json) -> str:
        return number(one["mass_correction"], 2) if is_corrected else "-"

    def centre(one: Json) -> str:
        return f"{1e3 * one['centre_correction']:.0f}" if is_corrected else "-"

    return _table(
        found,
        "RMS residual and corrections of the model",
        {
            "URDF [N·m]": lambda one: f"{one['rms_before']:.3f}",
            "fitted [N·m]": lambda one: f"{one['rms_after']:.3f}",
            "prediction, filtered [N·m]": lambda one: f"{one['prediction_error']:.3f}",
            "mass [kg]": mass,
            "centre of mass [mm]": centre,
        },
    )


MODEL_NOTE = (
    "URDF: RMS residual of the model as described, without friction; fitted: with the identified "
    "model; prediction: RMS error, low-pass filtered, in parts of the motion that were left out of "
    "the fit; mass and centre: corrections of the URDF"
)
"""Explanation of the columns of :func:`model_table`."""


def friction_table(found: Json) -> Table:
    """Return the friction, one row per joint."""
    return _table(
        found,
        "friction",
        {
            "Coulomb [N·m]": lambda one: number(one["friction"]["coulomb"], 3),
            "viscous [N·m·s/rad]": lambda one: number(one["friction"]["viscous"], 3),
            "offset [N·m]": lambda one: number(one["friction"]["offset"], 3),
            "Stribeck [N·m]": lambda one: number(one["friction"]["stribeck"], 3),
            "velocity scale [rad/s]": lambda one: f"{one['friction']['velocity_scale']:.3f}",
        },
    )


def detection_table(found: Json) -> Table:
    """Return observer gains and thresholds, one row per joint."""
    return _table(
        found,
        "observer and thresholds",
        {
            "observer_gain [1/s]": lambda one: f"{one['observer_gain']:.4g}",
            "largest residual [N·m]": lambda one: f"{one['largest']:.3f}",
            "contact_threshold [N·m]": lambda one: f"{one['threshold']:.3f}",
            "threshold_speed [N·m·s/rad]": lambda one: f"{one['threshold_speed']:.3f}",
            "collision_threshold [N·m]": lambda one: f"{one['collision_threshold']:.2f}",
        },
    )


def gain_table(gains: Sequence[DriveGain], accepted_error: float) -> Table:
    """Return a table of the gains of the drives with their standard errors, one row per joint.

    Args:
        gains: the gains, identified or given by the user.
        accepted_error: largest relative standard error (0.04 for 4 %) of an identified gain; a gain
            with a larger error is marked as not identified, unless it was given.
    """
    rows = []
    for one in gains:
        verdict = "identified" if one.is_accepted(accepted_error) else "not identified"
        cells = (
            one.joint,
            f"{one.gain:.4g}",
            f"{one.standard_error:.2g}",
            f"{100.0 * one.relative_error:.2g}",
            "given" if one.is_given else verdict,
        )
        rows.append(Row(cells))
    headings = ("joint", "gain [N·m per unit]", "standard error", "relative [%]", "")
    return Table(
        "gains of the drives", headings, tuple(rows), left=("joint", ""), no_wrap=("joint",)
    )


def _table(found: Json, title: str, columns: Mapping[str, Callable[[Json], str]]) -> Table:
    """Return a table with one row per joint; ``columns`` holds the text of a cell by heading."""
    rows = tuple(
        Row((joint, *(cell(one) for cell in columns.values())))
        for joint, one in found["joints"].items()
    )
    title = of_units(title, (one["unit"] for one in found["joints"].values()))
    return Table(title, ("joint", *columns), rows, left=("joint",), no_wrap=("joint",))
