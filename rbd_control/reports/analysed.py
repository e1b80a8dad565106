"""The analysed input of a report: recordings, robot description, parameters, version and date."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from rbd_control import __version__
from rbd_control.parameters import Parameters

_LISTED = 10
"""Maximum number of recordings that are listed by name."""


@dataclass(frozen=True)
class Analysed:
    """The input of the analysis that a report describes.

    Attributes:
        recordings: paths of the recordings; empty for a run of the demo.
        robot: path or name of the robot description; empty if the parameter file names it, or if
            it is unknown.
        config: path of the parameter file; empty for defaults.
        made: date and time of the report.
    """

    recordings: tuple[str, ...]
    robot: str
    config: str
    made: datetime

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the input as pairs of name and value for the report.

        At most ten recordings are listed; the others are counted.
        """
        facts = [("recording", recording) for recording in self.recordings[:_LISTED]]
        left = len(self.recordings) - _LISTED
        if left > 0:
            facts.append(("", f"and {left} more recordings"))
        if self.robot or self.config:
            facts.append(("robot description", self.robot or "named by the parameter file"))
            facts.append(("parameters", self.config or "defaults"))
        facts.append(
            ("made", f"{self.made:%Y-%m-%d %H:%M %Z}".strip() + f" by rbd-control {__version__}")
        )
        return tuple(facts)


def changed(parameters: Parameters) -> tuple[tuple[str, str], ...]:
    """Return name and value, as text with its unit, of each parameter that is not a default."""
    found = []
    for item in fields(parameters):
        value = getattr(parameters, item.name)
        if value != item.default:
            several = isinstance(value, tuple)
            shown = ", ".join(map(_shown, value)) if several else _shown(value)
            found.append((item.name, f"{shown} {item.metadata.get('unit', '')}".strip()))
    return tuple(found)


def _shown(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
