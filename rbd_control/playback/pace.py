"""Timing of the messages of a recording during playback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite

from rbd_control.joint_states import JointMessage

STILL = 1.0
"""Duration of one pass of a loop if all messages have the same time of receipt [s]."""

LEAST_SPACING = 1e-4
"""Minimum mean time between messages in a pass [s], which bounds the rate of very short loops."""

BURST = 64
"""Maximum number of messages published in one callback, so that other callbacks can run."""

SLACK = 0.1
"""Delay above which a playback does not catch up but plays the rest later [s]."""


def timeline(
    messages: Callable[[], Iterator[JointMessage]], loop: bool
) -> Iterator[tuple[float, float, JointMessage]]:
    """Yield the due time of each message, the shift of its stamp, and the message.

    Both times are in seconds of the recording. The due time counts from the start of the playback
    and follows the times of receipt; a message that is older than its predecessor is due at the
    same time. The shift is to be added to the stamp: the start of the pass, 0 in the first pass. A
    further pass begins one mean spacing after the last message of the previous pass, see also
    :data:`STILL` and :data:`LEAST_SPACING`.

    Args:
        messages: opens the recording and returns its messages in order; called for each pass.
        loop: whether to repeat the recording for ever.
    """
    begin = 0.0
    while True:
        first, elapsed, count = None, 0.0, 0
        for message in messages():
            if isfinite(message.receipt):
                first = message.receipt if first is None else first
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
    """Present position in a recording that is played ``rate`` times as fast as it was recorded.

    A message is due when the position has reached its due time. If the process is too slow for the
    rate, or was suspended, :meth:`hold_back` moves the position back instead of making all messages
    of the delay due at once.

    Attributes:
        rate: seconds of the recording per second of the steady clock.
        began: time on the steady clock at which position 0 was, or would have been, played [s].
        late: total time on the steady clock by which :meth:`hold_back` has moved the position
            back [s].
    """

    rate: float
    began: float
    late: float = 0.0

    def position(self, now: float) -> float:
        """Return the position at time ``now`` on the steady clock [s].

        The position is in seconds of the recording since its first message.
        """
        return (now - self.began) * self.rate

    def hold_back(self, due: float, now: float) -> bool:
        """Move the position back to a message that is more than :data:`SLACK` late.

        Call it before each burst, with the next message.

        Args:
            due: due time of the message in seconds of the recording.
            now: time on the steady clock [s].

        Returns:
            Whether the message was so late, and the position has been moved back.
        """
        behind = (self.position(now) - due) / self.rate
        if behind <= SLACK:
            return False
        self.began += behind
        self.late += behind
        return True
