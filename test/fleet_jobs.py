"""Jobs for the workers of a fleet that do no work, or end their process."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from rbd_control.errors import RecordingError
from rbd_control.fleet.store import DONE, Outcome


@dataclass(frozen=True)
class Quick:
    """Returns at once."""

    recording: Path

    def run(self) -> Outcome:
        return Outcome(DONE, result={"pid": os.getpid(), "name": self.recording.name})


@dataclass(frozen=True)
class Refused:
    """Cannot be used."""

    recording: Path

    def run(self) -> Outcome:
        error = RecordingError("holds nothing")
        error.path = str(self.recording / "inside.mcap")
        raise error


@dataclass(frozen=True)
class Faulty:
    """Meets a fault of the program."""

    recording: Path

    def run(self) -> Outcome:
        raise ZeroDivisionError("division by zero")


@dataclass(frozen=True)
class Deadly:
    """Kills its process, ``times`` times; each leaves a file beside the recording."""

    recording: Path
    times: int

    def run(self) -> Outcome:
        before = len(list(self.recording.parent.glob(f"{self.recording.name}.killed*")))
        if before < self.times:
            self.recording.with_name(f"{self.recording.name}.killed{before}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome(DONE, result={"pid": os.getpid(), "name": self.recording.name})
