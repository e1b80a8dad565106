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

    A controller without samples repeats its safe torque, so that commands may never cease. The
    state ``catching up`` therefore ends after the timeout, too.

    Attributes:
        unanswered: number of samples that got no command within the timeout of :meth:`may_step`, in
            the state ``paired``.
        unceasing: number of times that commands did not cease within this timeout, in the state
            ``catching up``.
    """

    def __init__(self) -> None:
        self.unanswered = self.unceasing = 0
        self._state: Literal["free", "catching up", "paired"] = "free"
        self._answered = False
        self._commanded = self._published = self._behind_since = 0.0

    def published(self, now: float) -> None:
        """Record that a sample was published at the time ``now`` [s]."""
        self._published, self._answered = now, False

    def commanded(self, now: float) -> None:
        """Record that a command was received at the time ``now`` [s]."""
        if self._state != "catching up" and (self._state == "free" or self._answered):
            self._state, self._behind_since = "catching up", now
        self._commanded, self._answered = now, True

    def may_step(self, now: float, timeout: float) -> bool:
        """Return whether the simulation may do its next step now. This method does not block.

        Args:
            now: the time [s].
            timeout: longest wait for the command to the last sample [s]; afterwards the state
                becomes ``free``, in which the result is always True. Also the longest wait for the
                end of the commands to older samples; afterwards the state becomes ``paired``.
        """
        if self._state == "catching up":
            is_quiet = now - self._commanded >= QUIET
            if not is_quiet and now - self._behind_since < max(timeout, QUIET):
                return False
            self.unceasing += not is_quiet
            self._state = "paired"
        elif self._state == "paired" and not self._answered:
            if now - self._published < timeout:
                return False
            self.unanswered += 1
            self._state = "free"
        return True
