"""Outcome of the processing of one recording of a fleet, and the record that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

DONE = "done"
NO_VERDICT = "no verdict"
BAD = "bad"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a job, the processing of one recording.

    Attributes:
        status: :data:`DONE`; :data:`NO_VERDICT` if the detector never had a verdict; or
            :data:`BAD` if the recording could not be used.
        reason: reason of a status other than :data:`DONE`; empty otherwise.
        start: stamp of the first sample [s]; None if it is unknown.
        result: the result of the job as plain values that ``json`` can write; None if the status is
            :data:`BAD`.
        warnings: warnings about the description of the robot.
    """

    status: str
    reason: str = ""
    start: float | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def bad(cls, reason: str) -> Outcome:
        """Return the outcome of a recording that could not be used, for a reason as text."""
        return cls(BAD, reason)


@dataclass(frozen=True)
class Record:
    """Stored entry of one recording of a fleet: its properties and the outcome of its job.

    Attributes:
        recording: absolute path of the recording.
        command: ``replay`` or ``calibrate``.
        arm: name of the arm.
        day: day of the recording as ``YYYY-MM-DD``; None if it is unknown.
        free: whether the recording was declared free of contact.
        key: digest from :func:`~rbd_control.fleet.keys.job_keys`; the outcome is up to date while
            the digest does not change.
        outcome: the outcome of the job.
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
        """``result`` of the outcome; an empty mapping if the recording is bad."""
        return self.outcome.result or {}

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values that ``json`` can write.

        The keys are the names of the fields of the record and of its outcome, on one level.
        """
        own = {name: value for name, value in vars(self).items() if name != "outcome"}
        return {**own, **asdict(self.outcome)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Record:
        """Return the record from the result of :meth:`to_json`; ignore further keys.

        Raises:
            KeyError: if a key is missing.
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
