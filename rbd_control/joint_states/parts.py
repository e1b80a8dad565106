"""Joint states of an arm whose joints are spread over several messages.

Two drivers may publish the halves of an arm, or its lift and its arm. Each message is a *part*; the
parts are joined to one message once each joint has been received since the last joined one. Its
stamp is that of the newest part. The other parts are older by their *age*, at most
:data:`LONGEST_AGE`, and their positions are continued by ``q + age v``.

A part without its counterparts is never used, so that joint states end as soon as one part is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states.messages import JointMessage

Array = NDArray[np.float64]

LONGEST_AGE = 0.02
"""Largest age of a part when it is used [s].

Velocity and effort of its joints are late by this age, as those of a driver at 50 Hz may be.
"""


class Parts:
    """Joins messages with some of an arm's joints to messages with all of them.

    Args:
        joint_names: the joints of the arm.

    Attributes:
        age: age of the oldest part of the last joined message [s]; 0 before the first.
        joined: number of joined messages.
        waited: number of parts that had waited for the last one of the last joined message.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._names = tuple(joint_names)
        self._place = {name: i for i, name in enumerate(self._names)}
        self.age = 0.0
        self.joined = self.waited = 0
        self.clear()

    def clear(self) -> None:
        """Forget the parts that wait for others."""
        self._received = np.full((4, len(self._names)), np.nan)  # time, q, v, tau
        self._message = np.zeros(len(self._names), dtype=np.int64)  # number of the message
        self._newest: JointMessage | None = None

    def names_part(self, names: Sequence[str]) -> bool:
        """Return whether a message with these names is a part: it has a joint of the arm."""
        return not self._place.keys().isdisjoint(names)

    def join(self, message: JointMessage) -> JointMessage | None:
        """Return the joined message that a part completes, or None.

        The parts that wait are forgotten if their clock went back.

        Args:
            message: a part. Its fields must have one number for each name; velocity and effort may
                be empty, which counts as NaN for each of its joints.
        """
        fields = [np.array(values, dtype=float) for values in message[3:]]
        here = [k for k, name in enumerate(message.name) if name in self._place]
        into = [self._place[message.name[k]] for k in here]
        time = message.stamp or message.receipt
        if self._newest is not None and time < (self._newest.stamp or self._newest.receipt):
            self.clear()
        self._newest = message
        self._received[0, into] = time
        self._message[into] = self._message.max() + 1
        for row, values in enumerate(fields, start=1):
            self._received[row, into] = values[here] if values.size else np.nan
        age = time - self._received[0]
        self._received[0, age > LONGEST_AGE] = np.nan
        if not np.isfinite(self._received[0]).all():
            return None
        _, q, v, tau = self._received
        self.waited = np.unique(self._message).size - 1
        q = np.where(age > 0.0, q + age * np.where(np.isfinite(v), v, 0.0), q)
        self.age, self.joined = float(age.max()), self.joined + 1
        whole = JointMessage(message.stamp, message.receipt, self._names, q, v, tau)
        self.clear()
        return whole
