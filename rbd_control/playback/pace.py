"""Timing of the messages of a recording during playback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rbd_control.joint_states import JointMessage

STILL = 1.0
"""Length of a pass through a recording whose messages all have the same time [s]."""

LEAST_SPACING = 1e-4
"""Least mean spacing of messages in a pass, so that a loop over two of them is no flood [s]."""

BURST = 64
"""Number of messages that are published at a time, so that other callbacks have their turn."""

SLACK = 0.1
"""Delay from which a playback goes on late instead of making up for what it missed [s]."""


def timeline(
    messages: Callable[[], Iterator[JointMessage]], loop: bool
) -> Iterator[tuple[float, float, JointMessage]]:
    """Yield each message with the time at which it is due and the shift of its stamp.

    Both are in seconds of the recording: the time counts from the beginning of the playback. A
    message whose time lies before that of its predecessor is due with it. A further pass begins
    one mean spacing after the last message of the pass before.

    Args:
        messages: opens the recording anew.
        loop: whether to go through it for ever.
    """
    begin = 0.0
    while True:
        first, elapsed, count = None, 0.0, 0
        for message in messages():
            if first is None:
                first = message.receipt
            elapsed = max(elapsed, message.receipt - first)
            count += 1
            yield begin + elapsed, begin, message
        if not loop or not count:
            return
        begin += _length(elapsed, count)


def _length(elapsed: float, count: int) -> float:
    """Return the time from the beginning of one pass to that of the next [s]."""
    if elapsed == 0.0:
        return max(STILL, count * LEAST_SPACING)
    return max(elapsed + elapsed / (count - 1), count * LEAST_SPACING)


@dataclass
class Pace:
    """Position in a recording that is played ``rate`` times as fast as it was recorded.

    Where the process is too slow for the rate, or was suspended, the position waits for it: what
    is due stays a burst at most, however long the delay.

    Attributes:
        rate: seconds of the recording for each second.
        began: time on the steady clock at which position 0 was, or would have been, played [s].
        late: how much later than intended the playback is by now [s].
    """

    rate: float
    began: float
    late: float = 0.0

    def position(self, now: float) -> float:
        """Return the position at time ``now`` on the steady clock, both in [s]."""
        return (now - self.began) * self.rate

    def hold_back(self, due: float, now: float) -> bool:
        """Let the position wait for a message that is due at position ``due`` [s].

        Returns:
            Whether the message is more than :data:`SLACK` late.
        """
        behind = (self.position(now) - due) / self.rate
        if behind <= SLACK:
            return False
        self.began += behind
        self.late += behind
        return True
