"""Diagnostics of a node, published on ``/diagnostics`` once a second, and in the log if they last.

A node states each warning and error in one place, its status. A condition that lasts for
:data:`LASTING` is written to the log once, and its end as well, so that the log names whatever the
diagnostics name.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from rbd_control.wording import shortened

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

MOST_DURATIONS = 1000
"""Maximum number of durations for the median; sorting more would delay a torque."""

LONGEST = 2000
"""Length above which a message, key or value of a status is cut [characters]."""


LASTING = 3.0
"""Time after which a condition is logged [s]; discovery by Fast DDS takes as long at the start."""

OVER = 5.0
"""Time without a condition after which its end is logged [s]; it may come and go until then."""


class Status:
    """Content of one diagnostic status: worst level so far, messages of that level, and values.

    Attributes:
        level: :data:`OK`, :data:`WARN` or :data:`ERROR`.
        messages: the messages of this level.
        values: key-value pairs, as text.
        unlogged: level and text of the warnings and errors that the node does not log itself.
    """

    def __init__(self) -> None:
        self.level: bytes = OK
        self.messages: list[str] = []
        self.values: list[KeyValue] = []
        self.unlogged: list[tuple[bytes, str]] = []

    def raise_to(self, level: bytes, message: str, *, is_logged: bool = False) -> None:
        """Raise the level and add a message; only messages of the highest level are kept.

        Args:
            level: :data:`OK`, :data:`WARN` or :data:`ERROR`; below the present level the message
                is not published.
            message: the problem as text.
            is_logged: whether the node logs the problem itself, at once.
        """
        message = shortened(message, LONGEST)
        if level > OK and not is_logged:
            self.unlogged.append((level, message))
        if level > self.level:
            self.level, self.messages = level, [message]
        elif level == self.level:
            self.messages.append(message)

    def add(self, key: str, value: object) -> None:
        """Add one key-value pair; a float has six significant digits, a bool is 0 or 1."""
        text = f"{value:.6g}" if isinstance(value, (float, bool)) else str(value)
        self.values.append(KeyValue(key=shortened(key, LONGEST), value=shortened(text, LONGEST)))


@dataclass
class _Condition:
    """A warning or an error that lasts; its text may have changed by :data:`_VARIABLE`."""

    text: str
    since: float
    seen: float
    is_logged: bool = False


class ConditionLog:
    """Logs each condition once when it has lasted for :data:`LASTING`, and its end.

    Args:
        node: the node.
        clock: returns the time on a steady clock [s].
    """

    def __init__(self, node: Node, clock: Callable[[], float] = time.monotonic) -> None:
        self._node, self._clock = node, clock
        self._conditions: dict[str, _Condition] = {}

    def update(self, present: Iterable[tuple[bytes, str]]) -> None:
        """Process level and text of all present conditions, as the node reports them."""
        now, logger = self._clock(), self._node.get_logger()
        for level, text in present:
            key = _VARIABLE.sub("", text)
            condition = self._conditions.setdefault(key, _Condition(text, now, now))
            condition.text, condition.seen = text, now
            if condition.is_logged or now - condition.since < LASTING:
                continue
            condition.is_logged = True
            if level >= ERROR:
                logger.error(text)
            else:
                logger.warning(text)
        for key, condition in list(self._conditions.items()):
            if condition.is_logged and now - condition.seen >= OVER:
                logger.info(f"no longer: {condition.text}")
            elif condition.is_logged or condition.seen == now:
                continue
            del self._conditions[key]


_VARIABLE = re.compile(r"\([^)]*\)|(?<![\w/.-])[-+]?\d[\d.e+-]*")
"""What may change in the text of one condition: values, and what stands in parentheses.

Digits of names do not count, because two servers are two conditions.
"""


def report_unreceived(
    node: Node, topic: str, qos: QoSProfile, status: Status, level: bytes = WARN
) -> None:
    """Name the publishers of a topic that a subscription cannot receive.

    Args:
        node: the node.
        topic: full name of the topic.
        qos: quality of service of the subscription.
        status: the status to fill in.
        level: level of each such publisher.
    """
    for publisher in node.get_publishers_info_by_topic(topic):
        compatibility, reason = qos_check_compatible(publisher.qos_profile, qos)
        if compatibility == QoSCompatibility.ERROR:
            status.raise_to(level, f"{topic} of {publisher.node_name} cannot be received: {reason}")


class Diagnostics:
    """Publishes one status of a node on ``/diagnostics`` each second of the steady clock.

    Args:
        node: the node.
        sources: functions that are called in turn with the :class:`Status` to fill in; the list may
            change later.
        others: functions that return a further status, which follows the status of the node in the
            same message, or None.
    """

    def __init__(
        self,
        node: Node,
        sources: list[Callable[[Status], None]],
        others: Sequence[Callable[[], DiagnosticStatus | None]] = (),
    ) -> None:
        self._node = node
        self._sources = sources
        self._others = others
        self._log = ConditionLog(node)
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)
        node.create_timer(1.0, self.publish)

    def publish(self) -> None:
        """Call ``sources`` and ``others``, publish the statuses, and log what lasts."""
        status = Status()
        for source in self._sources:
            source(status)
        others = [other for other in (make() for make in self._others) if other is not None]
        name = self._node.get_fully_qualified_name().lstrip("/")
        message = DiagnosticArray()
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.status = [
            DiagnosticStatus(
                level=status.level,
                name=name,
                message="; ".join(status.messages) or "ok",
                hardware_id=name,
                values=status.values,
            ),
            *others,
        ]
        self._publisher.publish(message)
        errors = [(other.level, other.message) for other in others if other.level >= ERROR]
        self._log.update((*status.unlogged, *errors))


class Durations:
    """Durations since the last report, for example of a callback.

    The maximum is over all durations, the median over the last :data:`MOST_DURATIONS`.
    """

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=MOST_DURATIONS)
        self._maximum = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration [s]."""
        self._values.append(seconds)
        self._maximum = max(self._maximum, seconds)

    def report(self, status: Status, what: str) -> None:
        """Add median and maximum [ms] to a status, and clear the durations.

        Args:
            status: the status to fill in; without durations nothing is added.
            what: text before ``median [ms]`` and ``maximum [ms]`` in the keys.
        """
        values = sorted(self._values)
        if values:
            status.add(f"{what} median [ms]", 1e3 * values[len(values) // 2])
            status.add(f"{what} maximum [ms]", 1e3 * max(self._maximum, values[-1]))
        self._values.clear()
        self._maximum = 0.0
