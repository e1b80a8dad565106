"""Connection of the fuzzer to the nodes: publishes bytes, sends requests, waits for answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters, ListParameters, SetParameters
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future

from bench.fuzz.inputs import Input, type_of
from bench.fuzz.requests import Interface
from rbd_control.ros.run import make_executor

DEPTH = 2000
"""Queue depth of the publishers: the longest burst, and messages that the middleware repeats."""

IN_FLIGHT = 10
"""Number of requests sent before the first is answered: the queue depth of a ROS service."""

ASK_AGAIN = 5.0
"""Time without an answer after which a node is asked for its state again [s]."""

POLL = 0.001
"""Period at which conditions are checked while waiting [s]."""

Check = Callable[[], bool]


def _never() -> bool:
    return False


class Wire:
    """A node that exchanges messages with the nodes under test; times to wait are in seconds.

    Attributes:
        node: the node, for further subscriptions.
        reports: last level, message and values of each node on ``/diagnostics``.
        unavailable: types of services that cannot be called, as their package is not installed.
    """

    def __init__(self) -> None:
        self.node = Node("fuzzer", start_parameter_services=False)
        self._executor = make_executor()
        self._executor.add_node(self.node)
        self._publishers: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self.reports: dict[str, tuple[int, str, dict[str, str]]] = {}
        self.unavailable: set[str] = set()
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, 50)

    def destroy(self) -> None:
        """Destroy the node."""
        self._executor.remove_node(self.node)
        self.node.destroy_node()

    # Waiting ---------------------------------------------------------------------------------

    def spin(self, seconds: float) -> None:
        """Process messages for some time [s]."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)

    def wait(self, condition: Check, seconds: float) -> bool:
        """Process messages until a condition holds; return whether it held within ``seconds``."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            self.spin(POLL)
        return True

    # Topics ----------------------------------------------------------------------------------

    def publish(self, inputs: Sequence[Input]) -> None:
        """Publish the inputs, one after the other without a pause."""
        for each in inputs:
            self._publisher(each).publish(each.stamped(time.time_ns()))

    def is_heard(self, sample: Input, listeners: int, seconds: float) -> bool:
        """Wait for ``listeners`` subscribers of a topic; return whether they are connected.

        Args:
            sample: an input with name and type of the topic.
            listeners: number of subscribers.
            seconds: longest wait [s].
        """
        publisher = self._publisher(sample)
        return self.wait(lambda: publisher.get_subscription_count() >= listeners, seconds)

    def forget(self, channel: str) -> None:
        """Destroy the publisher of a topic, because nodes count it as a second controller."""
        publisher = self._publishers.pop(channel, None)
        if publisher is not None:
            self.node.destroy_publisher(publisher)

    def _publisher(self, sample: Input) -> Any:
        publisher = self._publishers.get(sample.channel)
        if publisher is None:
            # Transient-local subscriptions, such as to robot_description, receive from
            # transient-local publishers only; other subscriptions receive from them as well.
            latched = sample.channel.endswith(("robot_description", "payload", "/_action/status"))
            durability = DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE
            qos = QoSProfile(depth=1 if latched else DEPTH, durability=durability)
            publisher = self.node.create_publisher(type_of(sample.type), sample.channel, qos)
            self._publishers[sample.channel] = publisher
        return publisher

    # Services --------------------------------------------------------------------------------

    def request(self, inputs: Sequence[Input], seconds: float) -> list[Input]:
        """Send requests, some at a time; return the requests that were not answered in time.

        After a request without an answer, no further requests are sent.

        Args:
            inputs: the requests.
            seconds: longest wait for the answers of up to :data:`IN_FLIGHT` requests [s].
        """
        unanswered: list[Input] = []
        for begin in range(0, len(inputs), IN_FLIGHT):
            part = inputs[begin : begin + IN_FLIGHT]
            sent = [(each, self._send(each)) for each in part]
            waiting = [future for _, future in sent if future is not None]
            self.wait(lambda waiting=waiting: all(f.done() for f in waiting), seconds)
            for each, future in sent:
                if future is not None and not future.done():
                    self._clients[each.channel].remove_pending_request(future)
                    unanswered.append(each)
            if unanswered:
                break
        return unanswered

    def call(
        self, kind: Any, service: str, request: Any, seconds: float, unless: Check = _never
    ) -> Any:
        """Call a service and return its answer.

        The answer is None if the service does not appear or does not answer in time, or if
        ``unless`` holds first.

        Args:
            kind: class of the service type.
            service: full name of the service.
            request: the request.
            seconds: longest wait for the service, and for its answer [s].
            unless: ends the wait when it holds.
        """
        client = self._client(kind, service)
        if not self.wait(lambda: client.service_is_ready() or unless(), seconds) or unless():
            return None
        future = client.call_async(request)
        self.wait(lambda: future.done() or unless(), seconds)
        if not future.done():
            client.remove_pending_request(future)
            return None
        return future.result()

    def silent(self, names: Sequence[str], seconds: float, unless: Check) -> list[str]:
        """Send a small request to all nodes; return the nodes that do not answer.

        A node processes its messages in order, so its answer shows that it has processed
        everything that was published before.

        Args:
            names: full names of the nodes.
            seconds: longest wait [s].
            unless: ends the wait when it holds.
        """
        futures = {}
        for name in names:
            client = self._client(GetParameters, f"/{name}/get_parameters")
            if self.wait(lambda client=client: client.service_is_ready() or unless(), seconds):
                futures[name] = client.call_async(GetParameters.Request())
        self.wait(lambda: all(f.done() for f in futures.values()) or unless(), seconds)
        return [name for name in names if name not in futures or not futures[name].done()]

    def _send(self, each: Input) -> Future | None:
        try:
            kind = type_of(each.type)
        except ModuleNotFoundError:
            self.unavailable.add(each.type)
            return None
        client = self._client(kind, each.channel)
        if not self.wait(client.service_is_ready, 1.0):
            return None
        future: Future = client.call_async(each.request())
        return future

    def _client(self, kind: Any, service: str) -> Any:
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self.node.create_client(kind, service)
        return client

    # Nodes -----------------------------------------------------------------------------------

    def state(self, name: str, seconds: float) -> int | None:
        """Return the number of the lifecycle state of a node; None when it does not answer.

        The request is repeated: a node whose process has just been replaced may still be known, and
        a request to it is lost.
        """
        answer, deadline = None, time.monotonic() + seconds
        while answer is None and time.monotonic() < deadline:
            answer = self.call(GetState, f"/{name}/get_state", GetState.Request(), ASK_AGAIN)
        return None if answer is None else int(answer.current_state.id)

    def change_state(self, name: str, transition: int, seconds: float) -> bool:
        """Request a lifecycle transition of a node by its number; return whether it succeeded."""
        request = ChangeState.Request()
        request.transition.id = transition
        answer = self.call(ChangeState, f"/{name}/change_state", request, seconds)
        return answer is not None and bool(answer.success)

    def parameters(self, name: str, seconds: float) -> dict[str, Any] | None:
        """Return the values of all parameters of a node as messages; None without an answer."""
        listed = self.call(
            ListParameters, f"/{name}/list_parameters", ListParameters.Request(), seconds
        )
        if listed is None:
            return None
        names = list(listed.result.names)
        request = GetParameters.Request(names=names)
        answer = self.call(GetParameters, f"/{name}/get_parameters", request, seconds)
        if answer is None:
            return None
        return dict(zip(names, answer.values, strict=False))

    def set_parameters(self, name: str, parameters: Sequence[Any], seconds: float) -> list[str]:
        """Set parameters one by one; return the refused parameters with the reasons."""
        request = SetParameters.Request(parameters=list(parameters))
        answer = self.call(SetParameters, f"/{name}/set_parameters", request, seconds)
        if answer is None:
            return [f"no answer within {seconds:g} s"]
        return [
            f"{parameter.name}: {result.reason}"
            for parameter, result in zip(parameters, answer.results, strict=False)
            if not result.successful
        ]

    def interface(self, name: str) -> Interface | None:
        """Return the services and parameters of a node; None while the node is not known."""
        namespace, _, node = name.rpartition("/")
        with suppress(Exception):  # rclpy raises for a node that is not known yet
            services = {
                service: types[0]
                for service, types in self.node.get_service_names_and_types_by_node(
                    node, f"/{namespace}"
                )
            }
            values = self.parameters(name, 5.0)
            if values and services:
                return Interface(name, services, tuple(values))
        return None

    def subscriptions(self, name: str) -> dict[str, str]:
        """Return the type of each topic that a node subscribes to, by name of the topic."""
        namespace, _, node = name.rpartition("/")
        found = self.node.get_subscriber_names_and_types_by_node(node, f"/{namespace}")
        return {topic: types[0] for topic, types in found}

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            self.reports[status.name] = (
                int.from_bytes(status.level, "little"),
                status.message,
                values,
            )
