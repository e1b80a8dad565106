"""Plots as PNG: residuals of a replay or a calibration, detection delay against false alarms."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rbd_control.estimation import Calibration
from rbd_control.files.output_files import write_whole
from rbd_control.playback.result import JointResidual, ReplayResult
from rbd_control.playback.summary import CONFIDENCE, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FOUND, _TRUE, _RESIDUAL, _NO_VERDICT = "tab:orange", "tab:green", "tab:blue", "0.6"


def draw_residuals(result: ReplayResult, path: Path) -> None:
    """Write a PNG with the contacts of a replay and the residual of each joint over time.

    The first plot shows true contacts, if they are known, detected contacts, and times without a
    verdict. Each joint has a plot of the residual, its threshold at rest, and the true external
    torque, if it is recorded.

    Args:
        result: result of the replay.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    # Imported here because the import takes longer than the replay of some seconds.
    from matplotlib.figure import Figure

    n = len(result.joints)
    figure = Figure(figsize=(11.0, 1.6 + 1.2 * n), layout="constrained")
    axes = figure.subplots(n + 1, 1, sharex=True, squeeze=False, height_ratios=[0.6, *[1.0] * n])[
        :, 0
    ]
    figure.suptitle(
        f"{Path(result.recording).name}: residual (external joint torque), {result.rate:.0f} Hz"
    )
    _draw_contacts(axes[0], result)
    for i, residual in enumerate(result.residuals):
        _draw_joint(axes[1 + i], result, i, residual)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=3, fontsize=8)
    axes[-1].set_xlabel("time since the first sample [s]")
    axes[-1].set_xlim(0.0, max(result.duration, 1e-3))
    figure.align_ylabels(axes[1:])
    _save(figure, path)


def draw_calibration(calibration: Calibration, path: Path) -> None:
    """Write a PNG with the residuals of all joints in all motions, and the calibrated thresholds.

    The plot also shows, in grey, the residuals of the description without friction.

    Args:
        calibration: result of the calibration.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    from matplotlib.figure import Figure

    n = len(calibration.joints)
    figure = Figure(figsize=(11.0, 1.2 + 1.3 * n), layout="constrained")
    axes = figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    figure.suptitle(
        "residual without contact: URDF without friction (grey), identified model (blue),\n"
        "and thresholds for a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} per hour (dashed)",
        fontsize=10,
    )
    start = 0.0
    for name, t, before, residual, threshold in calibration.residuals:
        axes[0].text(start, 1.02, name, transform=axes[0].get_xaxis_transform(), fontsize=8)
        shown = start + t - t[0]
        for i in range(n):
            axes[i].plot(shown, before[:, i], color="0.65", linewidth=0.6)
            axes[i].plot(shown, residual[:, i], color=_RESIDUAL, linewidth=0.6)
            for sign in (1.0, -1.0):
                axes[i].plot(shown, sign * threshold[:, i], "--", color="0.3", linewidth=0.7)
            axes[i].axvline(start, color="0.8", linewidth=0.8)
        start += float(t[-1] - t[0])
    for i, joint in enumerate(calibration.joints):
        axes[i].set_ylabel(f"{joint.joint}\n[N·m or N]", fontsize=8)
        axes[i].tick_params(labelsize=8)
        axes[i].set_xlim(0.0, start)
    axes[-1].set_xlabel("time [s], recordings in sequence")
    figure.align_ylabels()
    _save(figure, path)


def draw_curve(curve: Sequence[tuple[float, Summary]], path: Path) -> None:
    """Write a PNG: delay against false alarms, and both against the factor of the thresholds.

    Args:
        curve: pairs of a factor and the scores with all thresholds multiplied by it, at least one.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    from matplotlib.figure import Figure

    factor = np.array([factor for factor, _ in curve])
    rate = np.array([summary.false_alarms_per_hour for _, summary in curve])
    interval = np.array([summary.false_alarms_interval for _, summary in curve]).T
    delays = {
        # matplotlib leaves NaN out, while an infinite delay would change the axis.
        label: np.array([_milli(getattr(summary, what)) for _, summary in curve])
        for label, what in (("median", "delay_median"), ("95th percentile", "delay_p95"))
    }
    figure = Figure(figsize=(11.0, 5.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", width_ratios=[1.4, 1.0])
    against_alarms = figure.add_subplot(panels[0, 0].get_gridspec()[:, 0])
    for axes in panels[:, 0]:
        axes.remove()
    against_factor, alarms = panels[:, 1]
    for (label, delay), colour in zip(delays.items(), (_RESIDUAL, _FOUND), strict=True):
        against_alarms.plot(rate, delay, "o-", color=colour, label=label)
        against_factor.plot(factor, delay, "o-", color=colour, label=label)
        for each, x, y in zip(factor, rate, delay, strict=True):
            if np.isfinite(x) and np.isfinite(y):
                against_alarms.annotate(
                    f"x {each:g}", (x, y), (7, -3), textcoords="offset points", fontsize=7
                )
    alarms.fill_between(factor, *interval, color=_RESIDUAL, alpha=0.2, linewidth=0)
    alarms.plot(factor, rate, "o-", color=_RESIDUAL)
    # Rates are zero or decades apart, so the axis is linear up to a single false alarm.
    one = 3600.0 / max(curve[0][1].free_time, 1.0)
    against_alarms.set_xscale("symlog", linthresh=one)
    alarms.set_yscale("symlog", linthresh=one)
    for axes in (against_alarms, against_factor):
        axes.set_yscale("log")
        axes.set_ylabel("delay [ms]")
    against_alarms.set_xlabel("false alarms an hour")
    against_alarms.set_title("thresholds multiplied by the numbers at the points", fontsize=10)
    against_alarms.legend(fontsize=8)
    alarms.set_ylabel(f"false alarms an hour\n({CONFIDENCE:.0%} interval)")
    alarms.set_xlabel("factor of the thresholds")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG, completely or not at all."""
    content = BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_whole(path, content.getvalue())


def _milli(delay: float) -> float:
    return 1e3 * delay if np.isfinite(delay) else np.nan


def _draw_contacts(axes: Axes, result: ReplayResult) -> None:
    rows = [("no verdict", _NO_VERDICT, _no_verdict(result))]
    events = [
        (event.detected, result.duration if event.release is None else event.release)
        for event in result.events
    ]
    rows.insert(0, ("detected", _FOUND, events))
    if result.score is not None:
        contacts = [
            (contact.start, result.duration if contact.end is None else contact.end)
            for contact in result.score.contacts
        ]
        rows.insert(0, ("true contact", _TRUE, contacts))
    for row, (_, colour, spans) in enumerate(rows):
        axes.broken_barh(
            [(start, end - start) for start, end in spans], (row - 0.35, 0.7), color=colour
        )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axes.tick_params(axis="y", length=0)


def _draw_joint(axes: Axes, result: ReplayResult, i: int, residual: JointResidual) -> None:
    for event in result.events:
        end = result.duration if event.release is None else event.release
        axes.axvspan(event.detected, end, color=_FOUND, alpha=0.15, linewidth=0)
    axes.axhspan(-residual.threshold, residual.threshold, color="0.93", zorder=0, label="threshold")
    for limit in (-residual.threshold, residual.threshold):
        axes.axhline(limit, color="0.6", linewidth=0.8, linestyle="--")
    if result.true_torque_series is not None:
        times, lower, upper = result.true_torque_series.series()
        axes.plot(times, (lower + upper)[:, i] / 2, color=_TRUE, linewidth=1.0, label="true")
    times, lower, upper = result.residual_series.series()
    axes.fill_between(times, lower[:, i], upper[:, i], color=_RESIDUAL, alpha=0.4, linewidth=0)
    axes.plot(times, (lower + upper)[:, i] / 2, color=_RESIDUAL, linewidth=0.8, label="residual")
    axes.set_ylabel(f"{residual.joint}\n[N·m]", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.1)


def _no_verdict(result: ReplayResult) -> list[tuple[float, float]]:
    """Return start and end [s] of each series of bins in which no sample had a verdict."""
    times, lower, _ = result.residual_series.series()
    without = np.isnan(lower).any(1)
    edges = np.diff(np.concatenate(([0], without.astype(int), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    times = np.append(times, result.duration)
    return [(float(times[b]), float(times[e])) for b, e in zip(begins, ends, strict=True)]
