"""Errors of the callbacks of a node, of which none ends the process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from rclpy.serialization import deserialize_message

from rbd_control.ros.diagnostics import ERROR, WARN, Status

LOG_PERIOD = 5.0
"""Minimum time between two log lines about the same callback or topic [s]."""

LONGEST_TEXT = 200
"""Maximum length of an error text in a log line [characters]."""

LARGEST_MESSAGE = 16_000_000
"""Default size above which a message is dropped before it is deserialized [bytes]."""


class CallbackErrors:
    """Catches, counts and logs exceptions of callbacks.

    A message that cannot be deserialized is dropped and counted, so that a publisher of malformed
    messages cannot stop the arm. Any other exception is a defect of this software, after which
    the state of the node is unknown. Then ``react`` is called, and the controller switches to the
    safe torque. Callbacks of rclpy itself (parameter services, ``/clock``) fail only because of
    their request or message, which is dropped as well.

    Args:
        log: writes one error line.
        react: called with the name of the callback and the reason after an exception that is not
            caused by a malformed message.
        clock: steady clock [s].

    Attributes:
        failures: number of exceptions by name of the callback.
        malformed: number of dropped messages by topic: too large, or impossible to deserialize or
            to use.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        react: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._react, self._clock = log, react, clock
        self.failures: Counter[str] = Counter()
        self.malformed: Counter[str] = Counter()
        self._logged: dict[str, float] = {}
        self._reported: Counter[str] = Counter()

    def run(self, name: str, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``callback(*arguments)``; return its result, or None after an exception.

        An exception is passed to :meth:`failed`. It is critical unless ``callback`` belongs to
        rclpy. KeyboardInterrupt and SystemExit are not caught.

        Args:
            name: name of the callback in counts and log lines.
            callback: the function to call.
            arguments: its arguments.
        """
        try:
            return callback(*arguments)
        except Exception as error:
            self.failed(name, error, is_critical=not _is_of_rclpy(callback))
            return None

    def failed(self, name: str, error: Exception, *, is_critical: bool = True) -> None:
        """Count and log an exception; when it is critical, call ``react``.

        Args:
            name: name of the callback.
            error: the exception.
            is_critical: whether the state of the node is unknown after the exception.
        """
        self.failures[name] += 1
        reason = f"{name} failed: {describe(error)}"
        self._log_sometimes(name, reason, self.failures[name])
        if not is_critical:
            return
        try:
            self._react(name, reason)
        except Exception as second:
            self.failures["reaction"] += 1
            self._log_sometimes(
                "reaction",
                f"the reaction failed as well: {describe(second)}",
                self.failures["reaction"],
            )

    def dropped(self, topic: str, error: Exception | str) -> None:
        """Count and log a message that cannot be used.

        Args:
            topic: topic of the message.
            error: the exception of its deserialization, or the reason as text.
        """
        self.malformed[topic] += 1
        reason = error if isinstance(error, str) else describe(error)
        self._log_sometimes(
            topic, f"dropped a malformed message on {topic}: {reason}", self.malformed[topic]
        )

    # Wrappers --------------------------------------------------------------------------------

    def subscription(
        self, topic: str, kind: type, callback: Callable[[Any], None], largest: int
    ) -> Callable[[bytes], None]:
        """Return a callback for serialized messages that deserializes them and runs ``callback``.

        Use it with ``raw=True``: if rclpy deserialized a malformed message, the exception would
        occur outside of any callback. Here the message is dropped and counted. An exception of
        ``callback`` goes to :meth:`failed`; if ``callback`` belongs to rclpy, the message counts as
        malformed.

        Args:
            topic: name of the topic in counts and log lines.
            kind: type of the messages.
            callback: called with each deserialized message.
            largest: size above which a message is dropped and counted [bytes].
        """
        name, is_of_rclpy = f"callback of {topic}", _is_of_rclpy(callback)

        def receive(raw: bytes) -> None:
            if len(raw) > largest:
                self.dropped(topic, f"{len(raw)} bytes; at most {largest} are read")
                return
            try:
                message = deserialize_message(raw, kind)
                if is_of_rclpy:  # rclpy raises for an unusable message
                    callback(message)
                    return
            except Exception as error:
                self.dropped(topic, error)
                return
            self.run(name, callback, message)

        return receive

    def raw_subscription(
        self, topic: str, callback: Callable[[bytes], None]
    ) -> Callable[[bytes], None]:
        """Return ``callback``, which receives serialized messages, with its errors handled."""
        name = f"callback of {topic}"
        # Not a lambda function, which would be one more call between each message and its result.
        return partial(self.run, name, callback)

    def timer(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Return the callback of a timer with its errors handled."""
        name = f"timer {_name(callback)}"
        return lambda: self.run(name, callback)

    def service(
        self, service: str, callback: Callable[[Any, Any], Any]
    ) -> Callable[[Any, Any], Any]:
        """Return the callback of a service with its errors handled.

        After an exception the service answers with a refusal: a new response, whose ``message``, if
        it has this field, describes the exception. A coroutine may take long, because the executor
        continues meanwhile.
        """
        name = f"service {service}"
        is_critical = not _is_of_rclpy(callback)

        def refuse(response: Any, error: Exception) -> Any:
            self.failed(name, error, is_critical=is_critical)
            refusal = type(response)()
            if hasattr(refusal, "message"):
                refusal.message = f"failed: {describe(error)}"
            return refusal

        def answer(request: Any, response: Any) -> Any:
            try:
                return callback(request, response)
            except Exception as error:
                return refuse(response, error)

        async def answer_later(request: Any, response: Any) -> Any:
            try:
                return await callback(request, response)
            except Exception as error:
                return refuse(response, error)

        return answer_later if iscoroutinefunction(callback) else answer

    def report(self, status: Status) -> None:
        """Add the counts to a diagnostic status; counts that have increased raise its level.

        The level is WARN for malformed messages and ERROR for failures.
        """
        for counts, level, what in (
            (self.malformed, WARN, "malformed messages on"),
            (self.failures, ERROR, "failures of"),
        ):
            for name, count in counts.items():
                key = f"{what} {name}"
                status.add(key, count)
                new, self._reported[key] = count - self._reported[key], count
                if new:
                    status.raise_to(level, f"{key}: {new} in the last second", is_logged=True)

    def _log_sometimes(self, key: str, text: str, count: int) -> None:
        now = self._clock()
        if now - self._logged.get(key, -LOG_PERIOD) >= LOG_PERIOD:
            self._logged[key] = now
            self._log(f"{text} ({count} so far)" if count > 1 else text)


def describe(error: BaseException) -> str:
    """Return an exception as one short line: its type, its text and where it was raised."""
    text = shortened(str(error))
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def shortened(text: str) -> str:
    """Return ``text`` on one line; cut to :data:`LONGEST_TEXT` and ``...`` if it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def _is_of_rclpy(callback: Callable[..., Any]) -> bool:
    return str(getattr(callback, "__module__", "")).partition(".")[0] == "rclpy"


def _name(callback: Callable[..., Any]) -> str:
    return str(getattr(callback, "__name__", callback)).strip("_")
