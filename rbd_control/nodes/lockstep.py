"""Lockstep of the simulated arm: it waits for a torque command after each joint state."""

from __future__ import annotations

from typing import Literal

QUIET = 0.05
"""Time without a command after which the controller has answered all earlier samples [s]."""


class Lockstep:
    """Decides when a simulation may do its next step, so that each sample gets one command.

    A sample is a joint state that the simulation publishes, and a command is the torque with which
    the controller answers. A command does not identify its sample.

    The initial state is ``free``: samples are published at their rate. At the first command the
    state becomes ``catching up``: commands answer older samples, so the simulation waits until no
    more commands arrive. In the state ``paired`` each sample gets one command. A second command
    for the same sample shows that commands lag; the state becomes ``catching up`` again. If no
    command arrives in time, it becomes ``free``. All times are those of a steady clock [s].

    Attributes:
        unanswered: number of samples that got no command within the timeout of :meth:`may_step`, in
            the state ``paired``.
    """

    def __init__(self) -> None:
        self.unanswered = 0
        self._state: Literal["free", "catching up", "paired"] = "free"
        self._answered = False
        self._commanded = self._published = 0.0

    def published(self, now: float) -> None:
        """Record that a sample was published at the time ``now`` [s]."""
        self._published, self._answered = now, False

    def commanded(self, now: float) -> None:
        """Record that a command was received at the time ``now`` [s]."""
        if self._state == "free" or self._answered:
            self._state = "catching up"
        self._commanded, self._answered = now, True

    def may_step(self, now: float, timeout: float) -> bool:
        """Return whether the simulation may do its next step now. This method does not block.

        Args:
            now: the time [s].
            timeout: longest wait for the command to the last sample [s]; afterwards the state
                becomes ``free``, in which the result is always True.
        """
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
