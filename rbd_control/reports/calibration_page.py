"""The report of ``rbd-control calibrate``: residuals, friction, thresholds and gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.estimation import Calibration, Motion
from rbd_control.reports.analysed import Analysed
from rbd_control.reports.curves import Curves
from rbd_control.reports.page import Page, Part, Row, Section, Table, count, number
from rbd_control.reports.plots import Curve, Panel, PanelGrid, Span, TimePlots
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
    motions: Sequence[Motion],
    analysed: Analysed,
    more: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return the report of a calibration.

    Args:
        found: the JSON of the calibration
            (:func:`~rbd_control.cli.calibration_json.calibration_values`), the source of all
            numbers.
        calibration: the calibration, the source of the curves.
        motions: the motions of the calibration, the source of the velocities.
        analysed: the input of the analysis.
        more: further facts to list, as pairs of name and value.
    """
    friction: list[Part] = [_friction(found)]
    points = friction_points(calibration, motions)
    if points is not None:
        friction.append(_friction_plots(found, calibration, *points))
    gains = [Section("Gains of the drives", (_gains(found),))] if found["drive_gains"] else []
    return Page(
        title="Calibration of the contact detector",
        level="doubtful" if found["warnings"] else "good",
        verdict=_verdict(found),
        warnings=tuple(found["warnings"]),
        notes=(),
        facts=(*analysed.facts(), ("effort", found["effort_kind"].replace("_", " ")), *more),
        sections=(
            Section("Residual before and after", (_residuals(found), _residual_plots(calibration))),
            Section("Friction", tuple(friction)),
            Section("Observer and thresholds", (_thresholds(found),)),
            *gains,
        ),
    )


def friction_points(
    calibration: Calibration, motions: Sequence[Motion]
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


def _velocities(name: str, t: Array, motions: Sequence[Motion]) -> Array | None:
    """Return the velocities (k, nv) at times (k,) of the motion of this name; None without one."""
    for motion in motions:
        rows = np.minimum(np.searchsorted(motion.t, t), motion.t.size - 1)
        if motion.name == name and np.array_equal(motion.t[rows], t):
            return motion.v[rows]
    return None


def _verdict(found: Json) -> str:
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


def _residuals(found: Json) -> Table:
    return _table(
        found,
        "RMS residual, and what is added to the description (prismatic joints: N)",
        {
            "as described [N·m]": lambda one: number(one["rms_before"], 3),
            "fitted [N·m]": lambda one: number(one["rms_after"], 3),
            "prediction [N·m]": lambda one: number(one["prediction_error"], 3),
            "largest, fitted [N·m]": lambda one: number(one["largest"], 3),
            "mass [kg]": lambda one: number(one["mass_correction"], 2),
            "centre of mass [mm]": lambda one: number(one["centre_correction"], 0, scale=1e3),
            "motor inertia [kg·m²]": lambda one: number(one["rotor_inertia"], 3),
        },
        "As described: without friction; prediction: RMS error, low-pass filtered, in parts of the "
        "motion that were left out of the fit.",
    )


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


def _friction(found: Json) -> Table:
    return _table(
        found,
        "friction (prismatic joints: N and m)",
        {
            "Coulomb [N·m]": lambda one: number(one["friction"]["coulomb"], 3),
            "viscous [N·m·s/rad]": lambda one: number(one["friction"]["viscous"], 3),
            "offset [N·m]": lambda one: number(one["friction"]["offset"], 3),
            "Stribeck [N·m]": lambda one: number(one["friction"]["stribeck"], 3),
            "velocity scale [rad/s]": lambda one: number(one["friction"]["velocity_scale"], 3),
        },
    )


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
            "velocity [rad/s or m/s]",
            "friction [N·m or N]",
        )
        for i, joint in enumerate(found["joints"])
    )
    note = (
        "Measured: torque that the corrected model leaves, filtered by the observer. It deviates "
        "from the fit while the velocity reverses."
    )
    return PanelGrid(panels, note)


def _thresholds(found: Json) -> Table:
    return _table(
        found,
        "observer and thresholds (prismatic joints: N and m)",
        {
            "gain [1/s]": lambda one: f"{one['observer_gain']:.4g}",
            "contact at rest [N·m]": lambda one: f"{one['threshold']:.4g}",
            "and per speed [N·m·s/rad]": lambda one: f"{one['threshold_speed']:.4g}",
            "collision [N·m]": lambda one: f"{one['collision_threshold']:.4g}",
        },
    )


def _table(
    found: Json, title: str, columns: Mapping[str, Callable[[Json], str]], note: str = ""
) -> Table:
    """Return a table with one row per joint; ``columns`` holds the text of a cell by heading."""
    rows = tuple(
        Row((joint, *(cell(one) for cell in columns.values())))
        for joint, one in found["joints"].items()
    )
    return Table(title, ("joint", *columns), rows, note)


def _gains(found: Json) -> Table:
    rows = tuple(
        Row(
            (
                joint,
                f"{one['gain']:.4g}",
                "-" if one["standard_error"] is None else f"{one['standard_error']:.2g}",
                "-"
                if one["standard_error"] is None
                else f"{100.0 * one['standard_error'] / abs(one['gain']):.2g} %",
                "given" if one["given"] else "identified",
            )
        )
        for joint, one in found["drive_gains"].items()
    )
    headings = ("joint", "gain", "standard error", "relative", "known by")
    return Table("torque per unit of effort [N·m or N per unit]", headings, rows)
