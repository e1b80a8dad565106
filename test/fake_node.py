"""A node without ROS: it keeps what is published, logged and created."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rbd_control.ros.diagnostics import Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantPublisher


class FakePublisher(list[Any]):
    """A publisher that keeps its messages.

    Attributes:
        readers: number of subscribers.
        is_refusing: whether the middleware refuses messages.
    """

    look_for_readers: Any = FaultTolerantPublisher.look_for_readers

    def __init__(self, topic: str = "topic", *, while_read: bool = False) -> None:
        super().__init__()
        self.topic_name, self.while_read = topic, while_read
        self.readers, self.is_read, self.is_refusing = 0, True, False

    def get_subscription_count(self) -> int:
        return self.readers

    def publish(self, message: Any) -> None:
        self.try_publish(message)

    def try_publish(self, message: Any) -> bool:
        if not self.is_refusing:
            self.append(message)
        return not self.is_refusing


class FakeNode:
    """A node whose clock, graph and life cycle only the test changes.

    Args:
        attributes: further attributes, and methods that replace those of this class.

    Attributes:
        published: publishers by topic.
        callbacks: callbacks of subscriptions by topic.
        timers: callbacks of timers.
        lines: lines of the log.
        publishers: number of publishers of each topic in the graph.
    """

    is_active = True
    is_configured = False
    stopping = False
    steady = None

    def __init__(self, **attributes: Any) -> None:
        self.published: dict[str, FakePublisher] = {}
        self.callbacks: dict[str, Callable[[Any], None]] = {}
        self.timers: list[Callable[[], None]] = []
        self.lines: list[str] = []
        self.publishers = 0
        self.diagnostics: list[Callable[[Status], None]] = []
        self.errors = SimpleNamespace(run=lambda _name, callback, *given: callback(*given))
        self.refusals = SimpleNamespace(add=lambda *_: None)
        vars(self).update(attributes)

    def open(self, output: Any) -> Any:
        return self.published.setdefault(output.topic, FakePublisher(output.topic))

    def create_subscription(
        self, _kind: type, topic: str, callback: Callable[[Any], None], *_: Any, **__: Any
    ) -> Any:
        self.callbacks[topic] = callback
        return SimpleNamespace(topic_name=f"/{topic}")

    def create_timer(self, _period: float, callback: Callable[[], None], **_: Any) -> Any:
        self.timers.append(callback)
        return callback

    def destroy_timer(self, timer: Any) -> None:
        self.timers.remove(timer)

    def tick(self) -> None:
        """Call the callbacks of all timers."""
        for callback in [*self.timers]:
            callback()

    def count_publishers(self, _topic: str) -> int:
        return self.publishers

    def get_publishers_info_by_topic(self, _topic: str) -> list[Any]:
        return []

    def resolve_topic_name(self, name: str) -> str:
        return f"/{name}"

    resolve_service_name = resolve_topic_name

    def get_fully_qualified_name(self) -> str:
        return "/node"

    def get_logger(self) -> Any:
        def write(text: str, **_: object) -> None:
            self.lines.append(text)

        return SimpleNamespace(info=write, warning=write, error=write)

    def get_clock(self) -> Any:
        return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=0))

    def status(self) -> Status:
        """Return the status that the sources of the diagnostics fill in."""
        status = Status()
        for source in self.diagnostics:
            source(status)
        return status
