"""The other end of the nodes' topics: sends, listens, and waits for what must come."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.context import Context
from rclpy.duration import Duration
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from rbd_control.ros.run import SPIN_TIME, make_executor
from rbd_control.ros.transports import without_shared_memory

from .bringup import PATIENCE, REPORT_PERIOD
from .machine_delays import MachineDelays

T = TypeVar("T")

LATE = 0.3
"""Delay of a stream above which the probe prints a line: the machine was too busy [s]."""

STALLED = 3.0
"""Periods of a stream without a message from which on the stream counts as stalled."""

HOPELESS = 20.0
"""Wait after which a controller that the machine put in mode safe ends the wait [s]."""

LATCHED = QoSProfile(depth=1000, durability=DurabilityPolicy.TRANSIENT_LOCAL)


UNANSWERED = 10.0
"""Time after which a request without answer counts as lost [s]; servers answer within a second."""


class Heard(Sequence[Any]):
    """The messages of one topic in the order they came, and when they did.

    A message is deserialised when it is first read. Most of those that come at 1 kHz never are, and
    they would take most of the probe's processor time.

    Args:
        kind: type of the messages.
    """

    last = 0.0

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._messages: list[Any] = []
        self.times: list[float] = []

    def add(self, message: bytes) -> None:
        """Append a message as it came over the wire."""
        self.last = time.monotonic()
        self.times.append(self.last)
        self._messages.append(message)

    def clear(self) -> None:
        """Forget all messages."""
        self._messages.clear()
        self.times.clear()

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._read(k) for k in range(len(self))[index]]
        # From the front: while the last message is read, the next one may come.
        return self._read(range(len(self))[index])

    def _read(self, index: int) -> Any:
        message = self._messages[index]
        if isinstance(message, bytes):
            message = self._messages[index] = deserialize_message(message, self._kind)
        return message


@dataclass
class Report:
    """Last status of a node on /diagnostics."""

    level: int
    message: str
    values: dict[str, str]


@dataclass
class Source:
    """Joint states that a test sends over and over; its fields may change at any time."""

    names: Sequence[str]
    position: Sequence[float] | np.ndarray
    velocity: Sequence[float] | np.ndarray = ()
    effort: Sequence[float] | np.ndarray = ()
    on: bool = True
    shift: float = 0.0
    """How far the stamps are from the clock [s]."""
    stamp: Any = None
    """That of all messages, when it is not the clock's."""
    publishers: list[Any] = field(default_factory=list)

    def message(self, stamp: Any) -> JointState:
        message = JointState()
        message.header.stamp = stamp
        message.name = list(self.names)
        # Of an array ROS need not check the type of each number.
        message.position = array("d", self.position)
        message.velocity = array("d", self.velocity)
        message.effort = array("d", self.effort)
        return message


@dataclass(frozen=True)
class Begun:
    """Numbers of repetitions and streams, and the topics that are heard, at some time."""

    repetitions: int
    streams: int
    heard: set[str]


class Repetition:
    """Calls a callback periodically until the event ``ended`` is set; missed calls are left out."""

    def __init__(self, period: float, callback: Callable[[], object]) -> None:
        self.ended = threading.Event()
        self._period, self._callback = period, callback

    def run(self) -> None:
        due = time.monotonic() + self._period
        while not self.ended.wait(max(due - time.monotonic(), 0.0)):
            self._callback()
            due = max(due + self._period, time.monotonic())


def context_in(domain: int) -> Context:
    """Return a ROS context in a domain that leaves the signals of this process alone."""
    context = Context()
    rclpy.init(
        args=[],
        context=context,
        domain_id=domain,
        signal_handler_options=SignalHandlerOptions.NO,
    )
    return context


class Probe:
    """A node with its own context that spins in its own thread."""

    def __init__(self, domain: int) -> None:
        self.domain = domain
        with without_shared_memory():
            self._context = context_in(domain)
            self.node = Node("probe", context=self._context)
        self.reports: dict[str, Report] = {}
        self.delays = MachineDelays()
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, 10)
        self._heard: dict[str, Heard] = {}
        self._senders: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        # The executor of the nodes: rclpy's own takes most of the tests' processor time.
        self._executor = make_executor(self._context)
        self._executor.add_node(self.node)
        self._closed: Future[None] = Future()
        self._failure: BaseException | None = None
        # A repeated callback may run while the test destroys what it publishes with.
        self._turn = threading.RLock()
        self._repetitions: list[Repetition] = []
        self._streams: list[tuple[Source, Any]] = []
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def close(self) -> None:
        for repetition in self._repetitions:
            self.end_repetition(repetition)
        self._closed.set_result(None)
        self._thread.join(10.0)
        self._executor.remove_node(self.node)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)
        # The participant lasts as long as the executor, and its domain stays in use.
        del self._executor

    def listen(self, kind: type, topic: str, qos: QoSProfile | int = 1000) -> Heard:
        """Everything that comes on ``topic`` from now on."""
        if topic not in self._heard:
            heard = self._heard[topic] = Heard(kind)
            self.node.create_subscription(kind, topic, heard.add, qos, raw=True)
        return self._heard[topic]

    def send(self, topic: str, message: Any) -> None:
        """Publish once there is a subscriber."""
        if topic not in self._senders:
            self._senders[topic] = self.node.create_publisher(type(message), topic, 50)
        sender = self._senders[topic]
        self.wait(sender.get_subscription_count, f"nobody listens to {topic}")
        sender.publish(message)

    def change(self, node: str, transition: str) -> bool:
        """Request a lifecycle transition, such as ``configure``; return whether it succeeded."""
        number = getattr(Transition, f"TRANSITION_{transition.upper()}")
        request = ChangeState.Request(transition=Transition(id=number))
        return bool(self.call(ChangeState, f"{node}/change_state", request).success)

    def call(self, kind: Any, service: str, request: Any = None) -> Any:
        """Return the answer of a service.

        The middleware loses the first request, or its answer, if the server has not discovered this
        client completely, although the client has discovered the server. An unanswered request is
        therefore sent again with a new client.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            if service not in self._clients:
                self._clients[service] = self.node.create_client(kind, service)
            client = self._clients[service]
            self.wait(client.service_is_ready, f"no service {service}")
            future = client.call_async(request or kind.Request())
            again = time.monotonic() + UNANSWERED
            self.wait(lambda: future.done() or time.monotonic() > again, "")  # noqa: B023
            if future.done():
                return future.result()
            assert time.monotonic() < deadline, f"{service} does not answer; {self.reports}"
            self.node.destroy_client(self._clients.pop(service))

    def in_its_thread(self, what: Callable[[], T]) -> T:
        """Return the result of ``what``, which the thread of the executor calls.

        rclpy's action clients need it: they join the executor before they are complete.
        """
        task = self._executor.create_task(what)
        self.wait(task.done, "the probe does not run what was asked of it")
        result: T = task.result()
        return result

    def every(self, period: float, callback: Callable[[], object]) -> Repetition:
        """Call ``callback`` every ``period`` seconds, until :meth:`end_repetition`.

        The calls come from a thread of their own: a timer of the executor would wait, on a busy
        machine for many seconds, behind all messages that the probe has not handled yet.
        """

        def take_turn() -> None:
            with self._turn:
                if not repetition.ended.is_set():
                    callback()

        repetition = Repetition(period, take_turn)
        self._repetitions.append(repetition)
        threading.Thread(target=self._repeat, args=(repetition,), daemon=True).start()
        return repetition

    def end_repetition(self, repetition: Repetition) -> None:
        """End what :meth:`every` began; its callback is not called any more."""
        with self._turn:
            repetition.ended.set()

    @contextmanager
    def repeated(
        self, topic: str, message: Any, qos: QoSProfile | int = 10, period: float = 0.02
    ) -> Iterator[Any]:
        """Publish ``message`` periodically; yield the publisher, which is destroyed at the end."""
        publisher = self.node.create_publisher(type(message), topic, qos)
        repetition = self.every(period, lambda: publisher.publish(message))
        try:
            yield publisher
        finally:
            self.end_repetition(repetition)
            self.node.destroy_publisher(publisher)

    def end_stream(self, source: Source) -> None:
        """Publish nothing of ``source`` any more, and destroy its publisher."""
        with self._turn:
            source.on = False
            publisher = source.publishers.pop()
        self.node.destroy_publisher(publisher)

    def stream(self, source: Source, topic: str = "joint_states", rate: float = 100.0) -> Source:
        """Publish the joint states of ``source`` at ``rate``, while it is on."""
        publisher = self.node.create_publisher(JointState, topic, 50)
        source.publishers.append(publisher)
        self._streams.append((source, publisher))
        clock = self.node.get_clock()

        last, was_on = time.monotonic(), source.on

        def tick() -> None:
            nonlocal last, was_on
            before, last = last, time.monotonic()
            if last - before > LATE:
                print(f"the probe could send nothing on {topic} for {last - before:.2f} s")
            # A stream that the test has stopped does not stall.
            if was_on and source.on and last - before > STALLED / rate:
                self.delays.stalled(last - before, last)
            was_on = source.on
            if source.on:
                stamp = (clock.now() + Duration(seconds=source.shift)).to_msg()
                source.publishers[0].publish(source.message(source.stamp or stamp))

        self.every(1.0 / rate, tick)
        return source

    def wait(self, condition: Callable[[], T], otherwise: str, timeout: float = PATIENCE) -> T:
        """Return the first true value of ``condition``; fail with ``otherwise`` at the deadline."""
        begin = time.monotonic()
        deadline = begin + timeout
        while True:
            value = condition()
            if value:
                return value
            if self._failure is not None:
                raise AssertionError("the probe does not run any more") from self._failure
            if time.monotonic() > begin + HOPELESS:
                late = self.delays.now()
                assert not late, f"{otherwise}; joint states were late for {late}: {self.reports}"
            assert time.monotonic() < deadline, f"{otherwise}; reports: {self.reports}"
            time.sleep(0.01)

    def report(self, node: str) -> Report:
        """Return the next status of a node, which is newer than this call."""
        self.reports.pop(node, None)
        return self.wait(lambda: self.reports.get(node), f"no diagnostics of {node}")

    def later_report(self, node: str) -> Report:
        """Return a status of a node from up to a second later; what was on its way has arrived."""
        time.sleep(1.0 - REPORT_PERIOD)
        return self.report(node)

    def wait_for_report(
        self, node: str, condition: Callable[[Report], bool], otherwise: str
    ) -> Report:
        """Return the first report of a node from now on that meets ``condition``."""
        self.reports.pop(node, None)

        def found() -> Report | None:
            report = self.reports.get(node)
            return report if report and condition(report) else None

        return self.wait(found, f"{node}: {otherwise}")

    def begun(self) -> Begun:
        """Return what has been begun so far, for :meth:`end_others` and :meth:`forget`."""
        return Begun(len(self._repetitions), len(self._streams), set(self._heard))

    def forget(self, begun: Begun) -> None:
        """Drop what topics that were not heard then have brought; the subscriptions stay."""
        for topic in set(self._heard) - begun.heard:
            del self._heard[topic]

    def end_others(self, begun: Begun) -> None:
        """End all that was sent since then, and resume the controllers that the machine stopped."""
        if self._closed.done():
            return
        for repetition in self._repetitions[begun.repetitions :]:
            self.end_repetition(repetition)
        for source, publisher in self._streams[begun.streams :]:
            if publisher in source.publishers:
                source.on = False
                source.publishers.remove(publisher)
                self.node.destroy_publisher(publisher)
        for node in self.delays.now():
            client = self.node.create_client(Trigger, f"{node}/resume")
            deadline = time.monotonic() + UNANSWERED
            while node in self.delays.now() and time.monotonic() < deadline:
                if client.service_is_ready():
                    client.call_async(Trigger.Request())
                time.sleep(0.5)
            self.node.destroy_client(client)

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            level = int.from_bytes(status.level, "little")
            if "mode" in values:
                now = time.monotonic()
                self.delays.reported(status.name, values["mode"], status.message, now)
            self.reports[status.name] = Report(level, status.message, values)

    def _repeat(self, repetition: Repetition) -> None:
        try:
            repetition.run()
        except BaseException as error:
            self._failure = error
            raise

    def _spin(self) -> None:
        try:
            while not self._closed.done():
                self._executor.spin_until_future_complete(self._closed, timeout_sec=SPIN_TIME)
        except ExternalShutdownException:
            pass
        except BaseException as error:  # it would leave all that wait without an explanation
            self._failure = error
            raise


def efforts(heard: Heard) -> np.ndarray:
    """Return the newest message's effort."""
    return np.array(heard[-1].effort)
