"""Lockstep of a simulation that waits for a command after each of its samples."""

from __future__ import annotations

from typing import Literal

QUIET = 0.05
"""Time without a command after which the sender has processed all its samples [s]."""


class Lockstep:
    """Pairs samples with commands, although a command does not identify its sample.

    The initial state is ``free``: samples are published at their rate. At the first command the
    state becomes ``catching up``: commands answer older samples, so the simulation waits until no
    more commands arrive. In the state ``paired`` each sample gets one command. A second command
    for the same sample shows that commands lag; the state becomes ``catching up`` again. If no
    command arrives in time, it becomes ``free``. All times are those of a steady clock [s].

    Attributes:
        unanswered: number of samples without a command in time.
    """

    def __init__(self) -> None:
        self.unanswered = 0
        self._state: Literal["free", "catching up", "paired"] = "free"
        self._answered = False
        self._commanded = self._published = 0.0

    def published(self, now: float) -> None:
        """Record that a sample was published at ``now``."""
        self._published, self._answered = now, False

    def commanded(self, now: float) -> None:
        """Record that a command was received at ``now``."""
        if self._state == "free" or self._answered:
            self._state = "catching up"
        self._commanded, self._answered = now, True

    def may_step(self, now: float, timeout: float) -> bool:
        """Return whether to simulate the next step; wait at most ``timeout`` [s] for a command."""
        if self._state == "catching up":
            if now - self._commanded < QUIET:
                return False
            self._state = "paired"
        elif self._state == "paired" and not self._answered:
            if now - self._published < timeout:
                return False
            self.unanswered += 1
            self._state = "free"
        return True
