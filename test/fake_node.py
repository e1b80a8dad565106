"""A node without ROS: it keeps what is published, logged and created."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rbd_control.ros.guarded_node import GuardedPublisher


class FakePublisher(list[Any]):
    """A publisher that keeps its messages.

    Attributes:
        readers: number of subscribers.
        is_refusing: whether the middleware refuses messages.
    """

    look_for_readers: Any = GuardedPublisher.look_for_readers

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

    def wait_for_all_acked(self, _timeout: Any) -> bool:
        return True


class FakeNode:
    """A node whose clock, graph and life cycle only the test changes.

    Attributes:
        published: publishers by topic.
        logged: lines of the log, each with its level.
        is_active: whether the node is active.
    """

    def __init__(self, **attributes: Any) -> None:
        self.published: dict[str, FakePublisher] = {}
        self.logged: list[tuple[str, str]] = []
        self.is_active = True
        self.steady = None
        self.diagnostics: list[Any] = []
        vars(self).update(attributes)

    def open(self, output: Any) -> Any:
        return self.create_publisher(output.kind, output.topic, output.qos)

    def create_publisher(self, _kind: type, topic: str, _qos: Any) -> Any:
        return self.published.setdefault(topic, FakePublisher(topic))

    def destroy_publisher(self, publisher: FakePublisher) -> None:
        self.published.pop(publisher.topic_name, None)

    def create_timer(self, *_: Any, **_options: Any) -> Any:
        return None

    def resolve_topic_name(self, name: str) -> str:
        return f"/{name}"

    def get_fully_qualified_name(self) -> str:
        return "/node"

    def get_logger(self) -> Any:
        def log(level: str) -> Callable[..., None]:
            return lambda text, **_: self.logged.append((level, text))

        return SimpleNamespace(**{level: log(level) for level in ("info", "warning", "error")})
