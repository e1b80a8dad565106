"""Decides whether the machine, not the node under test, delayed the joint states of a test.

A controller that receives no joint states for longer than its timeout must switch to mode safe. On
a loaded machine the thread of the probe that publishes them may itself wait for the processor for
that long. A test that fails for this reason says nothing about the controller and is repeated, see
``conftest.py``. It is repeated only if

* a controller reports mode safe, and its reason is exactly that joint states are missing or late,
* the probe was publishing joint states at that time, and
* the probe measured that its own publishing stalled while the mode changed.

Joint states that a test stops or delays on purpose do not stall the probe, so the test fails.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import inf

REASON = re.compile(r"(?:no joint states for|their delay has grown by) ([\d.e+-]+) s")
"""Reasons of mode safe for missing and for late joint states, with the silence or delay [s]."""

SHARE = 0.5
"""Share of the reported silence that the probe must have measured; transport adds to it."""

UNCERTAINTY = 1.0
"""Time between a stall, the change of mode and its report, in either order [s]."""


def late_joint_states(message: str) -> float:
    """Return the silence or delay that a controller reports [s]; 0 for any other reason."""
    found = REASON.search(message)
    return float(found[1]) if found else 0.0


@dataclass
class Change:
    """A change of a controller to mode safe for missing or late joint states.

    Attributes:
        node: name of the controller.
        silence: reported silence or delay [s].
        after: time of the last report of another mode, on the steady clock [s].
        before: time of the first report of mode safe [s].
        until: time of the first report of another mode after that [s].
    """

    node: str
    silence: float
    after: float
    before: float
    until: float = inf


class MachineDelays:
    """Relates changes to mode safe to measured stalls of the publisher of joint states."""

    def __init__(self) -> None:
        self._stalls: list[tuple[float, float]] = []
        self._changes: list[Change] = []
        self._last: dict[str, tuple[float | None, float]] = {}

    def stalled(self, seconds: float, now: float) -> None:
        """Record that no joint state could be published for some time, which ends now [s]."""
        self._stalls.append((seconds, now))

    def reported(self, node: str, mode: str, message: str, now: float) -> None:
        """Record a report of a controller at time ``now`` [s]."""
        silence = late_joint_states(message) if mode == "safe" else None
        before, since = self._last.get(node, (None, -inf))
        self._last[node] = silence, now
        # A controller keeps the first reason until it is resumed: another one is a new change.
        if silence == before:
            return
        for change in self._of(node):
            change.until = min(change.until, now)
        if silence:
            self._changes.append(Change(node, silence, since, now))

    def since(self, begin: float) -> set[str]:
        """Return the controllers that a stall held in mode safe at any time after ``begin`` [s]."""
        return {x.node for x in self._changes if x.until > begin and self._is_of_the_machine(x)}

    def now(self) -> set[str]:
        """Return the controllers that are in mode safe because of a stall."""
        return {x.node for x in self._changes if x.until == inf and self._is_of_the_machine(x)}

    def _of(self, node: str) -> list[Change]:
        return [change for change in self._changes if change.node == node]

    def _is_of_the_machine(self, change: Change) -> bool:
        return any(
            seconds >= SHARE * change.silence
            and change.after - UNCERTAINTY < end < change.before + UNCERTAINTY
            for seconds, end in self._stalls
        )
