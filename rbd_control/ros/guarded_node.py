"""The base of all nodes: no callback, publication, response or transition can end the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy._rclpy_pybind11 import RCLError
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from rbd_control.ros.declared_parameters import refusing_unknown_types
from rbd_control.ros.guard import LARGEST_MESSAGE, CallbackGuard
from rbd_control.ros.publications import PublishingNode, Refusals, guard_response


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


class GuardedNode(PublishingNode, LifecycleNode):
    """A lifecycle node that neither exceptions of callbacks nor refused messages can end.

    Every callback of a subscription, timer or service runs through :attr:`guard`, including those
    that rclpy creates.

    Attributes:
        guard: handles exceptions of callbacks, see :class:`CallbackGuard`.
        refusals: counts the messages that the middleware refuses to publish.
        steady: the steady clock, for watchdogs.
    """

    _state_machine: Any  # of rclpy, without type hints

    def __init__(self, name: str) -> None:
        # Before the base class creates its services, publishers and the subscription to /clock.
        self.refusals = Refusals(lambda text: self.get_logger().warning(text))
        self.guard = CallbackGuard(
            lambda text: self.get_logger().error(text),
            lambda what, reason: self.on_failure(what, reason),
        )
        super().__init__(name)
        events = self.resolve_topic_name("~/transition_event")
        self._state_machine = StateMachine(
            self._state_machine, lambda error: self.refusals.add(events, error)
        )
        self._guard_services()
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)

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
        """Create a subscription whose messages the guard deserializes and passes to the callback.

        Args:
            msg_type, topic, callback, qos_profile, options: as in rclpy; the callback receives
                only the message.
            raw: pass the serialized message to the callback.
            largest: size above which a message is dropped [bytes]; ignored with ``raw``.
        """
        name = self.resolve_topic_name(topic)
        guarded = (
            self.guard.raw_subscription(name, callback)
            if raw
            else self.guard.subscription(name, msg_type, callback, largest)
        )
        return super().create_subscription(
            msg_type, topic, guarded, qos_profile, raw=True, **options
        )

    def create_timer(
        self, timer_period_sec: float, callback: Callable[[], None], *args: Any, **options: Any
    ) -> Timer:
        """Create a timer whose callback is guarded; arguments as in rclpy."""
        return super().create_timer(timer_period_sec, self.guard.timer(callback), *args, **options)

    def create_service(
        self, srv_type: Any, srv_name: str, callback: Callable[[Any, Any], Any], **options: Any
    ) -> Service:
        """Create a service whose callback is guarded; arguments as in rclpy."""
        guarded = self.guard.service(srv_name, callback)
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
            elif getattr(service.callback, "__module__", "") != CallbackGuard.__module__:
                service.callback = self.guard.service(service.srv_name, service.callback)
