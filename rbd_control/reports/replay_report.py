"""Data that ``rbd-control replay`` collects for its report."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.replay import Watch
from rbd_control.reports.analysed import changed
from rbd_control.reports.curves import BUDGET, ResidualCurves
from rbd_control.reports.output import HtmlOutput, analysed_now
from rbd_control.reports.replay_page import MOST_PLOTTED, replay_page


class ReplayReport:
    """Collects the residuals of the first recordings while they are replayed; writes the report.

    The residuals are reduced to curves of limited size. At most twelve recordings
    (``MOST_PLOTTED``) have curves.

    Args:
        html: output of the report; nothing is collected if no report is requested.
        model: the robot.
        parameters: parameters of the detector; the report lists those that are not defaults.
        recordings: number of recordings.
    """

    def __init__(
        self, html: HtmlOutput, model: Model, parameters: DetectorParameters, recordings: int
    ) -> None:
        self._html, self._parameters = html, parameters
        plotted = min(recordings, MOST_PLOTTED) if html.is_wanted else 0
        self._curves = [ResidualCurves(model.nv, BUDGET // plotted) for _ in range(plotted)]

    def watch(self, k: int) -> Watch | None:
        """Return the function that collects the residuals of recording ``k``, counted from 0.

        Pass it as ``watch`` to :func:`~rbd_control.playback.replay.replay`. A recording without
        plots has no such function: the result is None.
        """
        return self._curves[k].watch if k < len(self._curves) else None

    def write(
        self, found: Mapping[str, Any], arguments: argparse.Namespace, console: Console
    ) -> None:
        """Write the report if it is requested.

        Args:
            found: the JSON of the replay, see
                :func:`~rbd_control.reports.replay_page.replay_page`.
            arguments: parsed arguments of the command, with ``recordings``, ``urdf`` and
                ``config``.
            console: prints the names of the files.

        Raises:
            OSError: naming a file that cannot be written.
        """
        if self._html.is_wanted:
            analysed = analysed_now(arguments.recordings, arguments.urdf, arguments.config)
            page = replay_page(found, self._curves, analysed, changed(self._parameters))
            self._html.write(page, console)
