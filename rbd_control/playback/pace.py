"""Timing of the messages of a recording during playback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rbd_control.joint_states import JointMessage

STILL = 1.0
"""Duration of a pass through a recording whose messages all have the same time [s]."""

LEAST_SPACING = 1e-4
"""Minimum mean spacing of messages in a pass [s], which bounds the rate of very short loops."""

BURST = 64
"""Maximum number of messages published at a time, so that other callbacks can run."""

SLACK = 0.1
"""Delay above which a playback continues late instead of catching up [s]."""


def timeline(
    messages: Callable[[], Iterator[JointMessage]], loop: bool
) -> Iterator[tuple[float, float, JointMessage]]:
    """Yield the due time of each message, the shift of its stamp, and the message.

    Due time and shift are in seconds of the recording; the due time counts from the start of the
    playback. A
    message that is older than its predecessor is due at the same time. A further pass begins one
    mean spacing after the last message of the previous pass.

    Args:
        messages: opens the recording for each pass.
        loop: whether to repeat the recording for ever.
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
    """Return the time from the beginning of one pass to the beginning of the next [s]."""
    if elapsed == 0.0:
        return max(STILL, count * LEAST_SPACING)
    return max(elapsed + elapsed / (count - 1), count * LEAST_SPACING)


@dataclass
class Pace:
    """Position in a recording that is played ``rate`` times as fast as it was recorded.

    If the process is too slow for the rate, or was suspended, the position waits, so that at most
    one burst of messages is due after any delay.

    Attributes:
        rate: seconds of the recording for each second.
        began: time on the steady clock at which position 0 was, or would have been, played [s].
        late: present delay of the playback [s].
    """

    rate: float
    began: float
    late: float = 0.0

    def position(self, now: float) -> float:
        """Return the position at time ``now`` on the steady clock, both in [s]."""
        return (now - self.began) * self.rate

    def hold_back(self, due: float, now: float) -> bool:
        """Make the position wait for a message that is due at position ``due`` [s].

        Returns:
            Whether the message is more than :data:`SLACK` late.
        """
        behind = (self.position(now) - due) / self.rate
        if behind <= SLACK:
            return False
        self.began += behind
        self.late += behind
        return True
