"""Requests that stop an arm: cancellation of goals, Trigger services and MoveIt's stop event."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

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


class StopRequest:
    """A request without arguments to one service, which the caller repeats until the server agrees.

    At each stop of the arm call :meth:`begin` and :meth:`send`, then :meth:`repeat` until
    :attr:`is_settled`. The answer to any request of the stop counts, unless a later request was
    answered before it: a server may take longer for its answer than the period of the requests.

    Args:
        node: the node.
        kind: type of the service.
        name: name of the service.
        refusal: returns the reason if an answer is a refusal, and an empty text if the server
            agrees.
        lock: held while an answer is processed.
        is_once: whether the server must agree only once in each stop. Such a request is not
            repeated while the server may still be at work on it.

    Attributes:
        name: resolved name of the service.
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
        kind: Any,
        name: str,
        refusal: Callable[[Any], str],
        lock: ShortLock,
        *,
        is_once: bool = False,
    ) -> None:
        self._node, self._kind, self._refusal, self._is_once = node, kind, refusal, is_once
        self._lock = lock
        try:
            self._client = node.create_client(kind, name)
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
        future = try_request(self._client, self._kind.Request(), self._node.refusals)
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
            if self._is_once and not is_late:
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
        if self._is_once and self._has_agreed:
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
        self.request = StopRequest(
            node, CancelGoal, f"{action}/_action/cancel_goal", self._take_answer, lock
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


class StopOrders:
    """Sends all requests of a stop of the arm, and reports which servers do not answer.

    Two threads may use it, if both hold ``lock`` during each call.

    Args:
        node: the node.
        actions: names of the actions whose goals are cancelled.
        services: names of the services of type ``std_srvs/srv/Trigger`` that are called.
        moveit_topic: topic of MoveIt's execution events; an empty text if MoveIt is not stopped.
        lock: held while an answer or a status is processed.

    Raises:
        ParameterError: for an impossible name of an action, service or topic.
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        actions: Sequence[str],
        services: Sequence[str],
        moveit_topic: str,
        lock: ShortLock,
    ) -> None:
        self._node = node
        self._cancellers: list[GoalCanceller] = []
        self._triggers: list[StopRequest] = []
        self._event = None
        try:
            if moveit_topic:
                self._event = node.create_publisher(String, moveit_topic, QoSProfile(depth=1))
            for action in actions:
                self._cancellers.append(GoalCanceller(node, action, lock))
            for service in services:
                self._triggers.append(
                    StopRequest(node, Trigger, service, _refusal, lock, is_once=True)
                )
        except InvalidTopicNameException as error:
            self.destroy()
            raise ParameterError(f"moveit_topic or actions: {error}") from None
        except BaseException:
            self.destroy()
            raise
        self._missed: set[str] = set()
        self._told: int | None = 0
        """Number of cancelled goals when the stop event was published; None if it is still due."""
        self._begun = time.monotonic()

    def destroy(self) -> None:
        """Destroy all clients, subscriptions and publishers."""
        for canceller in self._cancellers:
            canceller.destroy()
        for trigger in self._triggers:
            trigger.destroy()
        if self._event is not None:
            self._node.destroy_publisher(self._event)
        self._cancellers, self._triggers, self._event = [], [], None

    def begin(self) -> None:
        """Send all requests of a new stop, first the requests that stop the arm fastest.

        The order is: cancellation of goals, Trigger services, event of MoveIt.
        """
        for canceller in self._cancellers:
            self._run(canceller.begin)
        for trigger in self._triggers:
            trigger.begin()
            self._run(trigger.send)
        self._run(self._stop_moveit)

    def repeat(self) -> None:
        """Repeat the requests of the present stop that may have been lost, and cancel new goals.

        Goals are always cancelled again. A Trigger service is called again until it has agreed, but
        not while it may be at work on the last call (:meth:`StopRequest.repeat`). The event of
        MoveIt is published again while requests are not settled, after goals were cancelled since
        the last event, and always if no actions are named.
        """
        for canceller in self._cancellers:
            self._run(canceller.repeat)
        for trigger in self._triggers:
            if not trigger.is_settled:
                self._run(trigger.repeat)
        # Publish only if necessary: MoveIt logs each event, and stops when its goals are cancelled.
        goes_on = not self.are_settled or self.cancelled != self._told
        if goes_on or not self._cancellers:
            self._run(self._stop_moveit)

    def send_refused(self) -> None:
        """Send the requests again that the middleware refused to send.

        Call it every few milliseconds while a stop is latched, so that no request gets lost.
        """
        for canceller in self._cancellers:
            if canceller.request.is_unsent:
                self._run(canceller.send)
        for trigger in self._triggers:
            if trigger.is_unsent:
                self._run(trigger.send)
        if self._told is None:
            self._run(self._stop_moveit)

    def end(self) -> None:
        """End the stop: cancel no further goals, and give up unanswered requests."""
        self._told = 0
        for canceller in self._cancellers:
            canceller.end()
        for request in self._requests:
            request.begin()

    @property
    def unsent(self) -> list[str]:
        """Services and topics of the requests that the middleware refused to send."""
        names = [request.name for request in self._requests if request.is_unsent]
        if self._told is None and self._event is not None:
            names.append(self._event.topic_name)
        return names

    @property
    def are_settled(self) -> bool:
        """Whether all requests are sent, and all existing servers have agreed and run no goal.

        After a repeated request, the previous answer counts for :data:`ANSWER_TIME`.
        """
        if self.unsent:
            return False
        runs = any(c.running for c in self._cancellers if c.request.is_there)
        return not runs and all(r.is_settled or not r.is_there for r in self._requests)

    @property
    def cancelled(self) -> int:
        """Number of goals that servers have agreed to cancel since the construction."""
        return sum(canceller.cancelled for canceller in self._cancellers)

    def look(self, patience: float) -> None:
        """Check which servers exist; log missing servers, and servers that have returned.

        Args:
            patience: time after the construction in which a missing server is not logged, because
                discovery takes that long [s].
        """
        waits = time.monotonic() - self._begun < patience
        for canceller in self._cancellers:
            canceller.look()
        for trigger in self._triggers:
            trigger.look()
        for request in self._requests:
            if request.is_there and request.name in self._missed:
                self._missed.discard(request.name)
                self._node.get_logger().info(f"{request.name} is there")
            elif not request.is_there and request.name not in self._missed and not waits:
                self._missed.add(request.name)
                self._node.get_logger().warning(self._absence(request))

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
                )
            elif not request.is_there:
                status.raise_to(WARN, self._absence(request))
            elif is_latched and request.refused:
                status.raise_to(ERROR, f"{request.name} refuses to stop: {request.refused}")
            elif is_latched and not request.is_settled:
                status.raise_to(ERROR, f"{request.name} does not answer")
        for canceller in self._cancellers:
            status.add(f"goals of {canceller.name}", canceller.running)
            if is_latched and canceller.running and canceller.request.is_settled:
                status.raise_to(ERROR, f"{canceller.name} goes on with a goal that was cancelled")
        status.add("goals cancelled", self.cancelled)

    @property
    def _requests(self) -> list[StopRequest]:
        return [*(canceller.request for canceller in self._cancellers), *self._triggers]

    def _absence(self, request: StopRequest) -> str:
        action = request.name.removesuffix("/_action/cancel_goal")
        what = f"service {request.name}" if action == request.name else f"action server {action}"
        return f"no {what}: a contact cannot stop it; start the server or correct the parameter"

    def _run(self, request: Callable[[], None]) -> None:
        """Send a request; an exception does not prevent the other requests."""
        self._node.errors.run("request to stop", request)

    def _stop_moveit(self) -> None:
        """Publish MoveIt's stop; if the middleware refuses it, it stays due."""
        is_told = self._event is None or self._event.try_publish(String(data="stop"))
        self._told = self.cancelled if is_told else None


def _refusal(answer: Trigger.Response) -> str:
    return "" if answer.success else answer.message or "no success"
