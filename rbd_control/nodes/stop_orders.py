"""Orders that stop an arm: cancelled goals, services, zero velocities and MoveIt's stop event."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from geometry_msgs.msg import TwistStamped
from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger

from rbd_control.errors import ParameterError
from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.diagnostics import ERROR, WARN, Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode, try_request
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.threads import ShortLock
from rbd_control.wording import shortened

LARGEST_STATUS = 1_000_000
"""Size above which a status message of an action is dropped before deserialization [bytes]."""

RUNNING = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING)
"""Status codes of a goal that has not ended and is not being cancelled."""

STATUS_QOS = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""Quality of service of the status topic of actions."""

LARGEST_COMMAND = 4096
"""Size above which a velocity command is dropped before deserialization [bytes]."""

LONGEST_ANSWER = 200
"""Length above which the reason of a refusal is cut [characters]."""

ANSWER_TIME = 2.0
"""Time without any answer after which a server counts as silent [s].

Until then a Trigger service may still be at work on its request, which is not repeated, and a
server that has agreed to an earlier request of the stop counts as settled.
"""

MOST_PENDING = 300
"""Maximum number of requests to one server that wait for their answers; older ones are given up.

It is more than are sent within :data:`ANSWER_TIME`, also with the shortest ``repeat_period``.
"""


COMMAND_TIME = 0.5
"""Time after a velocity command of another node in which the stop is not settled [s]."""


@dataclass(frozen=True)
class ServiceKind:
    """Type of a service that stops the arm.

    Attributes:
        kind: type of the service.
        request: the request that is sent; its answer has ``success`` and ``message``.
        is_once: whether the server must agree only once in each stop. Otherwise the request is
            repeated while the stop lasts, because another node may revoke its effect.
    """

    kind: Any
    request: Any
    is_once: bool


SERVICES = {
    "pause_services": ServiceKind(SetBool, SetBool.Request(data=True), is_once=False),
    "services": ServiceKind(Trigger, Trigger.Request(), is_once=True),
}
"""Kinds of services by the parameter that names them, in the order of their requests."""

VELOCITIES = {"velocity_topics": Float64MultiArray, "twist_topics": TwistStamped}
"""Types of velocity commands by the parameter that names their topics."""

ORDERS = ("actions", *SERVICES, *VELOCITIES)
"""Parameters with the names of actions, services and topics that stop the arm."""


class StopRequest:
    """A request to one service, which the caller repeats until the server agrees.

    At each stop of the arm call :meth:`begin` and :meth:`send`, then :meth:`repeat` until
    :attr:`is_settled`. The answer to any request of the stop counts, unless a later request was
    answered before it: a server may take longer for its answer than the period of the requests.

    Args:
        node: the node.
        service: type of the service, and its request.
        name: name of the service.
        refusal: returns the reason if an answer is a refusal, and an empty text if the server
            agrees.
        lock: held while an answer is processed.

    Attributes:
        name: resolved name of the service.
        is_once: whether the server must agree only once in each stop. Such a request is not
            repeated while the server may still be at work on it.
        is_there: whether the last call of :meth:`look` found a server, or an answer has arrived
            since.
        is_unsent: whether the middleware refused to send the last request of this stop.
        refused: reason of the refusal in the last answer of this stop; empty if there is none.
        unanswered: number of calls of :meth:`repeat` at which a request was unanswered although a
            server existed.
        unsent: number of requests that the middleware refused to send.

    Raises:
        ParameterError: if no service can have this name.
    """

    def __init__(
        self,
        node: FaultTolerantNode,
        service: ServiceKind,
        name: str,
        refusal: Callable[[Any], str],
        lock: ShortLock,
    ) -> None:
        self._node, self._refusal, self._lock = node, refusal, lock
        self._request, self.is_once = service.request, service.is_once
        try:
            self._client = node.create_client(service.kind, name)
        except InvalidServiceNameException as error:
            raise ParameterError(f"no service can be called {name!r}: {error}") from None
        self.name: str = node.resolve_service_name(name)
        self._pending: dict[Future, float] = {}
        """Unanswered requests of this stop in their order, with the times when they were sent."""
        self._answered = self._appeared = -inf
        """Times of the last answer of this stop, and when :meth:`look` found a new server."""
        self.is_there = self._has_agreed = self.is_unsent = False
        self.refused = ""
        self.unanswered = self.unsent = 0

    def destroy(self) -> None:
        """Destroy the client."""
        self._give_up(len(self._pending))
        self._node.destroy_client(self._client)

    def begin(self) -> None:
        """Begin a new stop: give up unanswered requests, and forget earlier answers."""
        self._give_up(len(self._pending))
        self._answered = -inf
        self._has_agreed = self.is_unsent = False
        self.refused = ""

    def send(self) -> None:
        """Send the request; the answers to earlier requests of the stop still count.

        A request that the middleware refuses is counted; call this method again while
        :attr:`is_unsent`.
        """
        self._give_up(len(self._pending) - MOST_PENDING + 1)
        future = try_request(self._client, self._request, self._node.refusals)
        self.is_unsent = future is None
        if future is None:
            self._has_agreed = False
            self.unsent += 1
            return
        self._pending[future] = time.monotonic()
        future.add_done_callback(
            lambda done: self._node.errors.run(f"answer of {self.name}", self._on_answer, done)
        )

    def repeat(self) -> None:
        """Send the request again, and count a request that is unanswered.

        With ``is_once`` it is not sent while the server may still be at work on the last request:
        the server has existed since then, and less than :data:`ANSWER_TIME` has passed.
        """
        if self._pending and self.is_there:
            self.unanswered += 1
            last = max(self._pending.values())
            is_late = last < self._appeared or time.monotonic() - last >= ANSWER_TIME
            if self.is_once and not is_late:
                return
            self._node.get_logger().warning(
                f"{self.name} does not answer; the request is repeated", throttle_duration_sec=5.0
            )
        self.send()

    def look(self) -> None:
        """Check whether a server of the service exists, for :attr:`is_there`."""
        was_there, self.is_there = self.is_there, bool(self._client.service_is_ready())
        if self.is_there and not was_there:
            self._appeared = time.monotonic()

    @property
    def is_waiting(self) -> bool:
        """Whether a request was sent, and neither answered nor given up yet."""
        return bool(self._pending)

    @property
    def is_settled(self) -> bool:
        """Whether the server agreed to the last answered request of this stop, and still answers.

        The value becomes False when the middleware refuses to send a later request, or when a
        request has waited for :data:`ANSWER_TIME` and no answer has come in this time.
        """
        asked = next(iter(self._pending.values()), inf)
        silence = time.monotonic() - max(asked, self._answered)
        return self._has_agreed and silence < ANSWER_TIME

    def _on_answer(self, done: Future) -> None:
        with self._lock.held():
            self._receive(done)

    def _receive(self, done: Future) -> None:
        answer = done.result()
        if done not in self._pending:
            return
        # The answer to an earlier request, if it still comes, is out of date.
        self._give_up(list(self._pending).index(done))
        del self._pending[done]
        self._answered = time.monotonic()
        self.is_there = True
        before, self.refused = self.refused, shortened(self._refusal(answer), LONGEST_ANSWER)
        self._has_agreed = not self.refused
        if self.is_once and self._has_agreed:
            # A server that has done its work may refuse to do it again.
            self.is_unsent = False
            self._give_up(len(self._pending))
        if self.refused and self.refused != before:
            self._node.get_logger().error(
                f"{self.name} refuses to stop: {self.refused}; the request is repeated"
            )

    def _give_up(self, count: int) -> None:
        """Give up the oldest ``count`` unanswered requests; none if ``count`` is not positive."""
        for future in list(self._pending)[: max(count, 0)]:
            self._client.remove_pending_request(future)
            del self._pending[future]


class GoalCanceller:
    """Cancels all running goals of one action, and every new goal until :meth:`end` is called.

    New goals are cancelled only while the node is active. The cancel request has neither goal id
    nor stamp, which means all goals. The type of the action need not be known.

    Args:
        node: the node.
        action: name of the action.
        lock: held while an answer or a status is processed.

    Attributes:
        name: resolved name of the action.
        request: the cancel request.
        cancelled: number of goals that the server has agreed to cancel since the construction.
        running: number of goals that have not ended and are not being cancelled, by the last status
            of the action; zero once the server that published this status has ended.

    Raises:
        ParameterError: if no action can have this name.
    """

    def __init__(self, node: ManagedNode[NodeParameters], action: str, lock: ShortLock) -> None:
        self._node, self._lock = node, lock
        cancel = ServiceKind(CancelGoal, CancelGoal.Request(), is_once=False)
        self.request = StopRequest(
            node, cancel, f"{action}/_action/cancel_goal", self._take_answer, lock
        )
        self.name = self.request.name.removesuffix("/_action/cancel_goal")
        self._status = node.create_subscription(
            GoalStatusArray,
            f"{action}/_action/status",
            self._on_status,
            STATUS_QOS,
            largest=LARGEST_STATUS,
        )
        self.cancelled = 0
        self.running = 0
        self._publishers: frozenset[bytes] = frozenset()
        """Publishers of the status when the last status with running goals arrived."""
        self._forbids = self._again = False

    def destroy(self) -> None:
        """Destroy the client of the cancel service and the subscription to the status."""
        self.request.destroy()
        self._node.destroy_subscription(self._status)

    def begin(self) -> None:
        """Request the cancellation of all running goals, and of new goals until :meth:`end`.

        Answers to earlier requests no longer count. If the middleware refuses the request
        (``request.is_unsent``), call :meth:`send` again.
        """
        self.request.begin()
        self._forbids = True
        self.send()

    def send(self) -> None:
        """Request the cancellation of all running goals."""
        self._again = False
        self.request.send()

    def repeat(self) -> None:
        """Request the cancellation of all running goals again."""
        self._again = False
        self.request.repeat()

    def end(self) -> None:
        """Stop cancelling new goals."""
        self._forbids = self._again = False

    def look(self) -> None:
        """Check whether the server exists, and discard the status of a server that has ended.

        Goals end with their server. A new server of the same action publishes no status before its
        first goal, so that the last status of the old server would be kept. An answer without
        cancelled goals does not show that no goal runs: a server in rclpy also answers so if it
        refuses to cancel.
        """
        self.request.look()
        if not self.running:
            return
        present = self._present_publishers()
        if not self._publishers:
            self._publishers = present
        elif not self._publishers & present:
            self._node.get_logger().info(
                f"the server of {self.name} has ended, and {self.running} running goals with it"
            )
            self.running = 0

    def _take_answer(self, answer: CancelGoal.Response) -> str:
        self.cancelled += len(answer.goals_canceling)
        if answer.return_code != CancelGoal.Response.ERROR_NONE:
            return f"return code {answer.return_code}"
        if self._again and self._cancels_new_goals:
            self.send()
        return ""

    def _on_status(self, message: GoalStatusArray) -> None:
        """Count running goals; during a stop, cancel them before the next repetition."""
        self.running = sum(s.status in RUNNING for s in message.status_list)
        with self._lock.held():
            if self._cancels_new_goals and self.running:
                if self.request.is_waiting:
                    self._again = True
                else:
                    self.send()
        # Query the publishers after the request, which must not wait for this query.
        self._publishers = self._present_publishers() if self.running else frozenset()

    @property
    def _cancels_new_goals(self) -> bool:
        """Whether new goals are cancelled; never while the node is not active.

        A deactivation that fails may skip :meth:`end`.
        """
        return self._forbids and self._node.is_active

    def _present_publishers(self) -> frozenset[bytes]:
        """Return the identifiers of the present publishers of the status."""
        found = self._node.get_publishers_info_by_topic(self._status.topic_name)
        return frozenset(bytes(publisher.endpoint_gid) for publisher in found)


class ZeroVelocity:
    """Publishes zeros on a topic of velocity commands while a stop lasts.

    A velocity controller keeps its last command when its publisher falls silent, so that a paused
    publisher alone does not stop the arm. Another node that continues to publish overrules the
    zeros; a command that is not zero can only come from another node, and is reported.

    Args:
        node: the node.
        kind: type of the commands, one of :data:`VELOCITIES`.
        topic: name of the topic.
        size: number of zeros in a ``Float64MultiArray`` until a command of another length arrives.

    Attributes:
        name: resolved name of the topic.
        is_there: whether the last call of :meth:`look` found another subscriber.
        is_unsent: whether the middleware refused the last zeros of this stop.
        overruled: number of commands that were not zero, received during stops.

    Raises:
        InvalidTopicNameException: if no topic can have this name.
    """

    def __init__(self, node: ManagedNode[NodeParameters], kind: Any, topic: str, size: int) -> None:
        self._node, self._kind, self._size, self._frame = node, kind, size, ""
        self._publisher = node.create_publisher(kind, topic, QoSProfile(depth=1))
        self._subscription = node.create_subscription(
            kind,
            topic,
            self._on_command,
            QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT),
            largest=LARGEST_COMMAND,
        )
        self.name: str = node.resolve_topic_name(topic)
        self._is_stopping = self.is_there = self.is_unsent = False
        self._commanded = -inf
        """Time of the last command of another node in this stop."""
        self.overruled = 0

    def destroy(self) -> None:
        """Destroy the publisher and the subscription."""
        self._node.destroy_publisher(self._publisher)
        self._node.destroy_subscription(self._subscription)

    def begin(self) -> None:
        """Begin a new stop, and publish zeros; call :meth:`send` every few milliseconds."""
        self._is_stopping, self._commanded = True, -inf
        self.send()

    def send(self) -> None:
        """Publish zeros."""
        zeros = self._kind()
        if isinstance(zeros, TwistStamped):
            zeros.header.stamp = self._node.get_clock().now().to_msg()
            zeros.header.frame_id = self._frame
        else:
            zeros.data = [0.0] * self._size
        self.is_unsent = not self._publisher.try_publish(zeros)

    def end(self) -> None:
        """End the stop."""
        self._is_stopping = self.is_unsent = False

    def look(self) -> None:
        """Check whether another node subscribes to the topic, for :attr:`is_there`."""
        self.is_there = self._node.count_subscribers(self.name) > 1

    @property
    def is_overruled(self) -> bool:
        """Whether another node has sent a velocity within the last :data:`COMMAND_TIME`."""
        return time.monotonic() - self._commanded < COMMAND_TIME

    def _on_command(self, command: Any) -> None:
        if isinstance(command, TwistStamped):
            parts = (command.twist.linear, command.twist.angular)
            values = [value for part in parts for value in (part.x, part.y, part.z)]
            self._frame = command.header.frame_id
        else:
            values = command.data
            self._size = len(values) or self._size
        if self._is_stopping and any(values):
            self.overruled += 1
            self._commanded = time.monotonic()
            self._node.get_logger().error(self.complaint, throttle_duration_sec=5.0)

    @property
    def complaint(self) -> str:
        """Text that says that another node commands velocities during the stop."""
        return (
            f"another node commands velocities on {self.name} during the stop, and may move the "
            f"arm: zeros do not overrule it; stop that node"
        )


class StopOrders:
    """Sends all requests of a stop of the arm, and reports which servers do not answer.

    Two threads may use it, if both hold ``lock`` during each call.

    Args:
        node: the node.
        names: names of actions, services and topics by the parameters in :data:`ORDERS`; a missing
            parameter has no names.
        moveit_topic: topic of MoveIt's execution events; an empty text if MoveIt is not stopped.
        joints: number of zeros in a ``Float64MultiArray``, see :class:`ZeroVelocity`.
        lock: held while an answer or a status is processed.

    Raises:
        ParameterError: for an impossible name of an action, service or topic.
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        names: Mapping[str, Sequence[str]],
        moveit_topic: str,
        joints: int,
        lock: ShortLock,
    ) -> None:
        self._node = node
        self._cancellers: list[GoalCanceller] = []
        self._calls: list[StopRequest] = []
        self._velocities: list[ZeroVelocity] = []
        self._event = None
        try:
            if moveit_topic:
                self._event = node.create_publisher(String, moveit_topic, QoSProfile(depth=1))
            for action in names.get("actions", ()):
                self._cancellers.append(GoalCanceller(node, action, lock))
            for parameter, service in SERVICES.items():
                for name in names.get(parameter, ()):
                    self._calls.append(StopRequest(node, service, name, _refusal, lock))
            for parameter, kind in VELOCITIES.items():
                for topic in names.get(parameter, ()):
                    self._velocities.append(ZeroVelocity(node, kind, topic, joints))
        except InvalidTopicNameException as error:
            self.destroy()
            raise ParameterError(f"name of a topic or an action: {error}") from None
        except BaseException:
            self.destroy()
            raise
        self._told: int | None = 0
        """Number of cancelled goals when the stop event was published; None if it is still due."""

    def destroy(self) -> None:
        """Destroy all clients, subscriptions and publishers."""
        for canceller in self._cancellers:
            canceller.destroy()
        for call in self._calls:
            call.destroy()
        for velocity in self._velocities:
            velocity.destroy()
        if self._event is not None:
            self._node.destroy_publisher(self._event)
        self._cancellers, self._calls, self._velocities, self._event = [], [], [], None

    def begin(self) -> None:
        """Send all requests of a new stop, first the requests that stop the arm fastest.

        The order is: cancellation of goals, services, zero velocities, event of MoveIt.
        """
        for canceller in self._cancellers:
            self._run(canceller.begin)
        for call in self._calls:
            call.begin()
            self._run(call.send)
        for velocity in self._velocities:
            self._run(velocity.begin)
        self._run(self._stop_moveit)

    def repeat(self) -> None:
        """Repeat the requests of the present stop that may have been lost, and cancel new goals.

        Goals are always cancelled again, and publishers paused again. A Trigger service is called
        again until it has agreed, but not while it may be at work on the last call
        (:meth:`StopRequest.repeat`). The event of
        MoveIt is published again while requests are not settled, after goals were cancelled since
        the last event, and always if no actions are named.
        """
        for canceller in self._cancellers:
            self._run(canceller.repeat)
        for call in self._calls:
            if not (call.is_once and call.is_settled):
                self._run(call.repeat)
        # Publish only if necessary: MoveIt logs each event, and stops when its goals are cancelled.
        goes_on = not self.are_settled or self.cancelled != self._told
        if goes_on or not self._cancellers:
            self._run(self._stop_moveit)

    def send_refused(self) -> None:
        """Publish zero velocities, and send the requests again that the middleware refused to send.

        Call it every few milliseconds while a stop is latched, so that no request gets lost.
        """
        for canceller in self._cancellers:
            if canceller.request.is_unsent:
                self._run(canceller.send)
        for call in self._calls:
            if call.is_unsent:
                self._run(call.send)
        for velocity in self._velocities:
            self._run(velocity.send)
        if self._told is None:
            self._run(self._stop_moveit)

    def end(self) -> None:
        """End the stop: cancel no further goals, send no zeros, give up unanswered requests."""
        self._told = 0
        for canceller in self._cancellers:
            canceller.end()
        for velocity in self._velocities:
            velocity.end()
        for request in self._requests:
            request.begin()

    @property
    def unsent(self) -> list[str]:
        """Services and topics of the requests that the middleware refused to send."""
        names = [receiver.name for receiver in self._receivers if receiver.is_unsent]
        if self._told is None and self._event is not None:
            names.append(self._event.topic_name)
        return names

    @property
    def are_settled(self) -> bool:
        """Whether all requests are sent, and all existing servers have agreed and run no goal.

        After a repeated request, the previous answer counts for :data:`ANSWER_TIME`. The value is
        False while another node commands velocities.
        """
        if self.unsent or any(velocity.is_overruled for velocity in self._velocities):
            return False
        runs = any(c.running for c in self._cancellers if c.request.is_there)
        return not runs and all(r.is_settled or not r.is_there for r in self._requests)

    @property
    def cancelled(self) -> int:
        """Number of goals that servers have agreed to cancel since the construction."""
        return sum(canceller.cancelled for canceller in self._cancellers)

    def look(self) -> None:
        """Check which servers and subscribers exist."""
        for canceller in self._cancellers:
            canceller.look()
        for call in self._calls:
            call.look()
        for velocity in self._velocities:
            velocity.look()

    def report(self, status: Status, is_latched: bool) -> None:
        """Add servers, counts and problems to the diagnostics.

        A missing server is a warning; while a stop is latched, a request that is not sent, not
        answered or refused, and a goal that continues, are errors.

        Args:
            status: the status to fill in.
            is_latched: whether a stop is latched.
        """
        for request in self._requests:
            status.add(request.name, "there" if request.is_there else "not there")
            status.add(f"unanswered requests to {request.name}", request.unanswered)
            status.add(f"requests to {request.name} that were not sent", request.unsent)
            if is_latched and request.is_unsent:
                status.raise_to(
                    ERROR,
                    f"the middleware refuses to send the request to {request.name}; it is repeated",
                    is_logged=True,
                )
            elif not request.is_there:
                status.raise_to(WARN, self._absence(request))
            elif is_latched and request.refused:
                refusal = f"{request.name} refuses to stop: {request.refused}"
                status.raise_to(ERROR, refusal, is_logged=True)
            elif is_latched and not request.is_settled:
                status.raise_to(ERROR, f"{request.name} does not answer", is_logged=True)
        for canceller in self._cancellers:
            status.add(f"goals of {canceller.name}", canceller.running)
            if is_latched and canceller.running and canceller.request.is_settled:
                status.raise_to(ERROR, f"{canceller.name} goes on with a goal that was cancelled")
        for velocity in self._velocities:
            status.add(velocity.name, "there" if velocity.is_there else "not there")
            status.add(f"commands on {velocity.name} during stops", velocity.overruled)
            if is_latched and velocity.is_unsent:
                status.raise_to(ERROR, f"the middleware refuses zero velocities on {velocity.name}")
            elif is_latched and velocity.is_overruled:
                status.raise_to(ERROR, velocity.complaint, is_logged=True)
            elif not velocity.is_there:
                status.raise_to(WARN, self._absence(velocity))
        status.add("goals cancelled", self.cancelled)

    @property
    def _receivers(self) -> list[StopRequest | ZeroVelocity]:
        return [*self._requests, *self._velocities]

    @property
    def _requests(self) -> list[StopRequest]:
        return [*(canceller.request for canceller in self._cancellers), *self._calls]

    def _absence(self, receiver: StopRequest | ZeroVelocity) -> str:
        action = receiver.name.removesuffix("/_action/cancel_goal")
        what = f"service {receiver.name}" if action == receiver.name else f"action server {action}"
        if isinstance(receiver, ZeroVelocity):
            what = f"subscriber of {receiver.name}"
        return f"no {what}: a contact cannot stop it; start the server or correct the parameter"

    def _run(self, request: Callable[[], None]) -> None:
        """Send a request; an exception does not prevent the other requests."""
        self._node.errors.run("request to stop", request)

    def _stop_moveit(self) -> None:
        """Publish MoveIt's stop; if the middleware refuses it, it stays due."""
        is_told = self._event is None or self._event.try_publish(String(data="stop"))
        self._told = self.cancelled if is_told else None


def _refusal(answer: Trigger.Response | SetBool.Response) -> str:
    return "" if answer.success else answer.message or "no success"
