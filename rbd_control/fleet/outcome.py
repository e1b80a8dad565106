"""The outcome of one recording of a fleet, and its stored record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DONE = "done"
NO_VERDICT = "no verdict"
BAD = "bad"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Attributes:
        status: :data:`DONE`; :data:`NO_VERDICT` if the detector never had a verdict; or
            :data:`BAD` if the recording could not be used.
        reason: reason of a status other than :data:`DONE`; empty otherwise.
        start: stamp of the first sample [s]; None if it is unknown.
        result: the result as plain values; None if the recording is bad.
        warnings: warnings about the description of the robot.
    """

    status: str
    reason: str = ""
    start: float | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def bad(cls, reason: str) -> Outcome:
        """Return the outcome of a recording that could not be used."""
        return cls(BAD, reason)


@dataclass(frozen=True)
class Record:
    """One recording of a fleet with its outcome.

    Attributes:
        recording: absolute path.
        command: ``replay`` or ``calibrate``.
        arm: name of the arm.
        day: day of the recording as ``YYYY-MM-DD``; None if it is unknown.
        free: whether it was declared free of contact.
        key: digest of everything that the result depends on.
        outcome: its outcome.
    """

    recording: str
    command: str
    arm: str
    day: str | None
    free: bool
    key: str
    outcome: Outcome

    @property
    def result(self) -> Mapping[str, Any]:
        """The result as plain values; empty if the recording is bad."""
        return self.outcome.result or {}

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain values that ``json`` can write."""
        own = {name: value for name, value in vars(self).items() if name != "outcome"}
        return {**own, **asdict(self.outcome)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Record:
        """Return the record from the result of :meth:`to_json`.

        Raises:
            KeyError: if a value is missing.
        """
        outcome = Outcome(
            status=content["status"],
            reason=content["reason"],
            start=content["start"],
            result=content["result"],
            warnings=tuple(content["warnings"]),
        )
        own = ("recording", "command", "arm", "day", "free", "key")
        return cls(**{name: content[name] for name in own}, outcome=outcome)
