"""When a simulation may go on that waits for the answer to each of its samples."""

from __future__ import annotations

from typing import Literal

QUIET = 0.05
"""Without a command for so long [s], the sender has caught up with the samples it has."""


class Lockstep:
    """Pairs samples with commands, although a command does not say which sample it answers.

    It starts ``free``: samples go out at their pace. At the first command it waits, ``catching
    up``, until no more come: they answer older samples. From then on, ``paired``, each sample gets
    one command. A second one for the same sample shows that commands lag, so it waits for quiet
    again; none in time makes it free. All times are those of a steady clock [s].

    Attributes:
        unanswered: samples that got no command in time.
    """

    def __init__(self) -> None:
        self.unanswered = 0
        self._state: Literal["free", "catching up", "paired"] = "free"
        self._answered = False
        self._commanded = self._published = 0.0

    def published(self, now: float) -> None:
        """A sample has gone out."""
        self._published, self._answered = now, False

    def commanded(self, now: float) -> None:
        """A command has come in."""
        if self._state == "free" or self._answered:
            self._state = "catching up"
        self._commanded, self._answered = now, True

    def may_step(self, now: float, timeout: float) -> bool:
        """Whether to go on; ``timeout`` [s] is the longest to wait for a command."""
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
