"""The base of all nodes: no callback, publication, response or transition can end the process.

On a machine at its limit the middleware may refuse a message (``RCLError: Failed to publish``).
Most topics only inform: their publishers lose the message, and nothing else happens. The publishers
of torque, verdict, events and requests to stop call :meth:`FaultTolerantPublisher.try_publish`, and
react to a refusal, most of them by publishing again. Requests to services are sent by
:func:`try_request`.

An :class:`Output` declares a topic that a node publishes. The publisher, the check for subscribers,
the SROS2 policy and the table in docs/topics.md follow from it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy._rclpy_pybind11 import RCLError
from rclpy.client import Client
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Future
from rclpy.timer import Timer

from rbd_control.ros.callback_errors import LARGEST_MESSAGE, CallbackErrors
from rbd_control.ros.declared_parameters import refusing_unknown_types
from rbd_control.ros.diagnostics import WARN, Status
from rbd_control.wording import shortened

LOG_PERIOD = 5.0
"""Minimum time between two log lines about refused messages [s]."""

LONGEST_REASON = 200
"""Length above which the reason of the middleware is cut in the log [characters]."""

Message = TypeVar("Message")

READERS_PERIOD = 0.1
"""Period at which nodes check whether outputs with ``while_read`` have subscribers [s]."""


@dataclass(frozen=True)
class Output(Generic[Message]):
    """A topic that a node publishes.

    Attributes:
        topic: name of the topic, as given to rclpy.
        kind: type of the messages.
        qos: quality of service; a number is the depth of a reliable, volatile queue.
        text: what the messages contain and when they are published, for the page of topics.
        while_read: whether messages are published only while the topic has a subscriber.
    """

    topic: str
    kind: type[Message]
    qos: QoSProfile | int
    text: str
    while_read: bool = False


if TYPE_CHECKING:
    from rclpy.publisher import Publisher as _Publisher
else:

    class _Publisher(Publisher):
        """A publisher with a type argument, which the publisher of ROS 2 Jazzy does not take."""

        def __class_getitem__(cls, _kind: Any) -> type:
            return cls


class Refusals:
    """Counts the messages that the middleware refused, and reports them with the diagnostics.

    Args:
        warn: writes one warning to the log.
        clock: returns the time of a steady clock [s].

    Attributes:
        counts: number of refused messages by topic or service.
    """

    def __init__(
        self, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._warn, self._clock = warn, clock
        self.counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()
        self._logged: Counter[str] = Counter()
        self._reason = ""
        self._log_again = -LOG_PERIOD

    def add(self, topic: str, error: Exception) -> None:
        """Count a refused message; the log line follows with :meth:`report`.

        Writing a log line takes as long as several samples, and this method may run between two
        torques.

        Args:
            topic: name of the topic or service.
            error: the error of the middleware, which the log line quotes.
        """
        self.counts[topic] += 1
        self._reason = str(error)

    def report(self, status: Status) -> None:
        """Add the counts to a diagnostic status; counts that have increased are a warning.

        New counts are also written to the log, at most once in :data:`LOG_PERIOD`.
        """
        for topic, count in list(self.counts.items()):
            key = f"publications refused on {topic}"
            status.add(key, count)
            new, self._reported[topic] = count - self._reported[topic], count
            if new:
                status.raise_to(WARN, f"{key}: {new} in the last second", is_logged=True)
        self.log()

    def log(self) -> None:
        """Write new counts to the log, at most once in :data:`LOG_PERIOD`.

        :meth:`report` calls this method. A node without diagnostics calls it after an attempt to
        publish.
        """
        new, now = self.counts - self._logged, self._clock()
        if not new or now < self._log_again:
            return
        self._log_again, self._logged = now + LOG_PERIOD, self.counts.copy()
        topics = ", ".join(f"{topic} ({count} messages)" for topic, count in new.items())
        self._warn(
            f"the middleware refused to publish on {topics}: "
            f"{shortened(self._reason, LONGEST_REASON)}; reduce the load of the machine or the "
            "rate of the joint states"
        )


class FaultTolerantPublisher(_Publisher[Message]):
    """A publisher that raises no exception when the middleware refuses a message.

    A :class:`PublishingNode` makes all its publishers of this class, also those that rclpy creates
    for the node.

    Attributes:
        refusals: counts the refused messages.
        while_read: whether :meth:`look_for_readers` has an effect, see :class:`Output`.
        is_read: whether the topic had a subscriber at the last call of :meth:`look_for_readers`;
            always true without ``while_read``.
    """

    refusals: Refusals
    while_read = False
    is_read = True

    def look_for_readers(self) -> None:
        """Update :attr:`is_read`; the node calls this method every :data:`READERS_PERIOD`."""
        if self.while_read:
            self.is_read = self.get_subscription_count() > 0

    def publish(self, msg: Message | bytes) -> None:
        """Publish a message; a message that the middleware refuses is lost and counted.

        Raises:
            TypeError: for a message of another type.
        """
        self.try_publish(msg)

    def try_publish(self, msg: Message | bytes) -> bool:
        """Publish a message, and return whether the middleware accepted it; count it if not.

        Raises:
            TypeError: for a message of another type.
        """
        try:
            Publisher.publish(self, msg)
        except RCLError as error:
            self.refusals.add(self.topic_name, error)
            return False
        return True


class PublishingNode(Node):
    """A node whose publications raise no exception when the middleware refuses them.

    Attributes:
        refusals: counts the refused messages; a subclass sets it before it calls the constructor of
            the node, which creates publishers and uses them.
        outputs: the topics that the node publishes, except those that all nodes have and those
            whose names are parameters.
    """

    refusals: Refusals
    outputs: ClassVar[Sequence[Output[Any]]] = ()

    def create_publisher(
        self, msg_type: Any, topic: str, qos_profile: QoSProfile | int, **options: Any
    ) -> FaultTolerantPublisher[Any]:
        """Create a publisher that counts refused messages; arguments as in rclpy."""
        options["publisher_class"] = FaultTolerantPublisher
        publisher = super().create_publisher(msg_type, topic, qos_profile, **options)
        assert isinstance(publisher, FaultTolerantPublisher)
        publisher.refusals = self.refusals
        return publisher

    def open(self, output: Output[Message]) -> FaultTolerantPublisher[Message]:
        """Create the publisher of an output, which must be one of :attr:`outputs`."""
        assert output in self.outputs, f"{output.topic} is not declared in outputs"
        publisher = self.create_publisher(output.kind, output.topic, output.qos)
        publisher.while_read = output.while_read
        return publisher

    def look_for_readers(self) -> None:
        """Check which outputs with ``while_read`` have subscribers. Call it periodically."""
        for publisher in self.publishers:
            if isinstance(publisher, FaultTolerantPublisher):
                publisher.look_for_readers()


def try_request(client: Client, request: Any, refusals: Refusals) -> Future | None:
    """Send a request to a service.

    Args:
        client: the client of the service.
        request: the request.
        refusals: counts the request if the middleware refuses it.

    Returns:
        The future of the answer, or None if the middleware refused to send the request.
    """
    try:
        return client.call_async(request)
    except RCLError as error:
        refusals.add(client.srv_name, error)
        return None


def guard_response(service: Service, refusals: Refusals) -> None:
    """Change a service so that a response that the middleware refuses is counted.

    Without this change rclpy raises an exception in the executor, which would count as a defect of
    the node. A second call for the same service does nothing.

    Args:
        service: the service to change.
        refusals: counts the refused responses.
    """
    if "send_response" in vars(service):
        return
    send = service.send_response

    def try_to_send(response: Any, header: Any) -> None:
        try:
            send(response, header)
        except RCLError as error:
            refusals.add(service.srv_name, error)

    service.send_response = try_to_send


class StateMachine:
    """rclpy's lifecycle state machine, whose transitions do not fail because of their event.

    rcl changes the state, and then publishes ``~/transition_event``. If the middleware refuses this
    message, rclpy takes the transition for failed: it does not call the callback, and the node
    stays in the intermediate state, from which no request leads away. A node that should be
    deactivated would go on in the state ``deactivating``. Here the event is lost, and nothing else.

    All other attributes are those of the wrapped state machine.

    Args:
        machine: the state machine of an rclpy lifecycle node.
        refused: called with the error of the middleware for each event that it refuses.
    """

    def __init__(self, machine: Any, refused: Callable[[RCLError], None]) -> None:
        self._machine, self._refused = machine, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def trigger_transition_by_id(self, transition: int, publish: bool) -> None:
        """Start a transition, and publish its event if ``publish`` is true.

        Raises:
            RCLError: if there is no such transition from the present state.
        """
        self._trigger(self._machine.trigger_transition_by_id, transition, publish)

    def trigger_transition_by_label(self, label: str, publish: bool) -> None:
        """Complete a transition by the label of its result; otherwise as the method above."""
        self._trigger(self._machine.trigger_transition_by_label, label, publish)

    def _trigger(self, trigger: Callable[[Any, bool], None], which: object, publish: bool) -> None:
        before = self._machine.current_state
        try:
            trigger(which, publish)
        except RCLError as error:
            if self._machine.current_state == before:
                raise
            self._refused(error)


class FaultTolerantNode(PublishingNode, LifecycleNode):
    """A lifecycle node that neither exceptions of callbacks nor refused messages can end.

    Every callback of a subscription, timer or service runs through :attr:`errors`, including those
    that rclpy creates.

    Attributes:
        errors: handles exceptions of callbacks, see :class:`CallbackErrors`.
        refusals: counts the messages that the middleware refuses to publish.
    """

    _state_machine: Any  # of rclpy, without type hints

    def __init__(self, name: str) -> None:
        # Before the base class creates its services, publishers and the subscription to /clock.
        self.refusals = Refusals(lambda text: self.get_logger().warning(text))
        self.errors = CallbackErrors(
            lambda text: self.get_logger().error(text),
            lambda what, reason: self.on_failure(what, reason),
        )
        super().__init__(name)
        events = self.resolve_topic_name("~/transition_event")
        self._state_machine = StateMachine(
            self._state_machine, lambda error: self.refusals.add(events, error)
        )
        self._guard_services()

    def on_failure(self, name: str, reason: str) -> None:
        """React to an exception in the callback ``name``, which is a software defect.

        Subclasses override this method, which does nothing. The exception is already counted and
        logged. ``reason`` is its description.
        """

    def create_subscription(
        self,
        msg_type: Any,
        topic: str,
        callback: Callable[[Any], None],
        qos_profile: QoSProfile | int,
        *,
        raw: bool = False,
        largest: int = LARGEST_MESSAGE,
        **options: Any,
    ) -> Subscription:
        """Create a subscription whose messages are deserialized and passed to the callback.

        Args:
            msg_type, topic, callback, qos_profile, options: as in rclpy; the callback receives
                only the message.
            raw: pass the serialized message to the callback.
            largest: size above which a message is dropped [bytes]; ignored with ``raw``.
        """
        name = self.resolve_topic_name(topic)
        guarded = (
            self.errors.raw_subscription(name, callback)
            if raw
            else self.errors.subscription(name, msg_type, callback, largest)
        )
        return super().create_subscription(
            msg_type, topic, guarded, qos_profile, raw=True, **options
        )

    def create_timer(self, timer_period_sec: float, callback: Callable[[], None]) -> Timer:
        """Create a timer on the steady clock whose errors are handled.

        Each timer has a clock of its own: the events executor prints a warning when it manages
        eight timers of one clock.

        Args:
            timer_period_sec: period [s].
            callback: called without arguments.
        """
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        return super().create_timer(timer_period_sec, self.errors.timer(callback), clock=clock)

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Callable[[Any, Any], Any], **options: Any
    ) -> Service:
        """Create a service whose errors are handled; arguments as in rclpy."""
        guarded = self.errors.service(srv_name, callback)
        service = super().create_service(srv_type, srv_name, guarded, **options)
        guard_response(service, self.refusals)
        return service

    def _guard_services(self) -> None:
        """Guard the services that rclpy creates without :meth:`create_service`.

        The services that set parameters also refuse parameters of an unknown type.
        """
        for service in self.services:
            guard_response(service, self.refusals)
            if service.srv_type in (SetParameters, SetParametersAtomically):
                service.callback = refusing_unknown_types(service.callback)
            elif getattr(service.callback, "__module__", "") != CallbackErrors.__module__:
                service.callback = self.errors.service(service.srv_name, service.callback)
