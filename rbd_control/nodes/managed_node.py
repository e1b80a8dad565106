"""The base of all nodes: lifecycle, parameters, robot description, guarded callbacks."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar, cast

from diagnostic_msgs.msg import DiagnosticStatus
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from std_msgs.msg import String

from rbd_control.errors import ModelError, ModelWarning, RbdControlError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.declared_parameters import DeclaredParameters, refusing_unknown_types
from rbd_control.nodes.diagnostics import WARN, Diagnostics, Status
from rbd_control.nodes.guard import LARGEST_MESSAGE, CallbackGuard, describe
from rbd_control.nodes.joint_scout import JointScout
from rbd_control.nodes.priority import take_priority
from rbd_control.nodes.publications import GuardedPublisher, Refusals, guard_response
from rbd_control.parameters import Parameters
from rbd_control.robot.joint_choice import held_in_words
from rbd_control.robot.robot import Robot, description_text
from rbd_control.robot.robot_parameters import RobotParameters

P_co = TypeVar("P_co", bound=NodeParameters, covariant=True)

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""Quality of service of a topic whose last message is stored for late subscribers."""

_SUCCESS, _FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class NotReadyError(RbdControlError):
    """The node cannot be activated yet; with ``autostart`` it continues to wait."""


class ManagedNode(LifecycleNode, Generic[P_co]):
    """A lifecycle node with typed parameters, a robot model and an automatic start.

    A derived class sets ``parameters_type`` and overrides the hooks :meth:`configure`,
    :meth:`activate`, :meth:`deactivate` and :meth:`cleanup`. The first two may raise any error of
    the package; the transition then fails with one line in the log. With ``autostart`` such a
    failure ends the node with :attr:`exit_code` 1.

    Every callback of the node runs through :attr:`guard`, including those that rclpy creates, and
    every publisher is a :class:`GuardedPublisher`.

    Attributes:
        parameters: the current parameter object.
        guard: handles exceptions of callbacks, see :class:`CallbackGuard`.
        refusals: counts the messages that the middleware refused to send.
        is_starting: whether the automatic configuration and activation is still to come.
        exit_code: set when the node requests the end of the process.
        is_configuring: whether a signal may interrupt the node, because it compiles and publishes
            nothing.
        stopping: set by the first signal; afterwards the node is not active and starts no
            transition except its shutdown.
        before_activation: called before the node is activated for the first time.
        check_robot: called with a known arm before the node is configured with it; may raise
            an error of the package.
        steady: the steady clock, for watchdogs.

    Raises:
        ParameterError: by the constructor, for an unusable parameter.
    """

    parameters_type: type[P_co]
    needs_model: ClassVar[bool] = True
    reads_joint_states: ClassVar[bool] = False
    """Whether the node uses joint states, which then determine joints without a parameter."""

    def __init__(self, name: str) -> None:
        # Before the base class creates its services, publishers and the subscription to /clock.
        self.refusals = Refusals(lambda text: self.get_logger().warning(text))
        self.guard = CallbackGuard(
            lambda text: self.get_logger().error(text),
            lambda what, reason: self.on_failure(what, reason),
        )
        super().__init__(name)
        self._guard_services()
        self._is_active = False
        self.is_configuring = False
        self.stopping = False
        self.before_activation: Callable[[], None] = lambda: None
        self.check_robot: Callable[[], None] = lambda: None
        self.exit_code: int | None = None
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.robot: Robot
        self._configured = False
        self._waiting = ""
        self._failure: BaseException | None = None
        self._described = ""
        self._declared = DeclaredParameters(
            self,
            self.parameters_type,
            is_fixed=lambda: self._configured,
            check=self._check_parameters,
            changed=self._on_parameters_changed,
        )
        self.get_logger().info(self._declared.summary(self.get_fully_qualified_name()))
        self._scout: JointScout | None = None
        if self.needs_model:
            self.create_subscription(String, "robot_description", self._on_description, LATCHED)
            if self.reads_joint_states:
                self._scout = JointScout(self)
        self.diagnostics: list[Callable[[Status], None]] = [
            self._report_state,
            self.guard.report,
            self.refusals.report,
        ]
        self.more_diagnostics: list[Callable[[], DiagnosticStatus | None]] = []
        Diagnostics(self, self.diagnostics, self.more_diagnostics)
        self.is_starting = bool(self.parameters.autostart)
        if self.is_starting:
            self._starter = self.create_timer(0.05, self._start, clock=self.steady)

    @property
    def parameters(self) -> P_co:
        """The current parameter object, of class ``parameters_type``."""
        return self._declared.current

    @property
    def is_active(self) -> bool:
        """Whether the node is in the lifecycle state active and no signal has asked it to end."""
        return self._is_active and not self.stopping

    # Hooks -----------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the objects that depend on parameters and ``robot``."""

    def activate(self) -> None:
        """Start publishing."""

    def deactivate(self) -> None:
        """Stop publishing; also called before the process ends."""

    def cleanup(self) -> None:
        """Destroy the objects that :meth:`configure` created."""

    def waiting_for(self) -> str:
        """Return the missing condition for activation; empty if the node can be activated."""
        return ""

    # The node calls this method only with objects of its own ``parameters_type``, so a covariant
    # type parameter is safe.
    def check_parameters(self, new: P_co) -> None:  # type: ignore[misc]
        """Raise a ``ValueError`` for parameters that the configured node cannot accept."""

    def parameters_changed(self) -> None:
        """Apply the current parameter object to the configured node."""

    def on_failure(self, name: str, reason: str) -> None:
        """React to an exception in the callback ``name``, which is a software defect.

        The exception is already counted and logged. ``reason`` is its description.
        """

    def on_compiling(self, kernel: str) -> None:
        """Log that compilation delays the start; ``rbd-control warmup`` compiles ahead of time."""
        self.get_logger().info(
            f"compiling {kernel} and other functions not stored yet, which takes a minute or two",
            once=True,
        )

    # Guarded callbacks -----------------------------------------------------------------------

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
            largest: size above which a message is dropped [bytes].
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

    def create_publisher(
        self, msg_type: Any, topic: str, qos_profile: QoSProfile | int, **options: Any
    ) -> GuardedPublisher[Any]:
        """Create a publisher that counts refused messages; arguments as in rclpy."""
        publisher = super().create_publisher(
            msg_type, topic, qos_profile, **{**options, "publisher_class": GuardedPublisher}
        )
        assert isinstance(publisher, GuardedPublisher)
        publisher.refusals = self.refusals
        return publisher

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
        """Guard the services that rclpy creates without :meth:`create_service`."""
        for service in self.services:
            guard_response(service, self.refusals)
            if service.srv_type in (SetParameters, SetParametersAtomically):
                service.callback = refusing_unknown_types(service.callback)
            elif getattr(service.callback, "__module__", "") != CallbackGuard.__module__:
                service.callback = self.guard.service(service.srv_name, service.callback)

    def _check_parameters(self, new: P_co) -> None:  # type: ignore[misc]  # as check_parameters
        if self._configured:
            self.check_parameters(new)

    def _on_parameters_changed(self, _new: NodeParameters) -> None:
        if self._configured:
            self.guard.run("parameters_changed", self.parameters_changed)

    # Lifecycle -------------------------------------------------------------------------------

    def on_configure(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Find the model and call :meth:`configure`."""
        return self._transition("configure", self._configure)

    def on_activate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`activate`, unless a condition of the activation is missing."""
        return self._transition("activate", self._activate)

    def on_deactivate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`deactivate`."""
        return self._transition("deactivate", self._deactivate)

    def on_cleanup(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`cleanup`."""
        return self._transition("clean up", self._cleanup)

    def on_shutdown(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Deactivate the node, so that it leaves no motion running."""
        return self._transition("shut down", self._deactivate)

    def end(self) -> None:
        """Deactivate the node permanently; it sends nothing afterwards.

        Call it before the process ends, in any state of the node. It never raises an exception.
        """
        self.stopping = True
        self.guard.run("deactivate", self._deactivate)
        if self._state() in ("unconfigured", "inactive", "active"):
            self.guard.run("shutdown", self.trigger_shutdown)

    def _transition(self, what: str, step: Callable[[], None]) -> TransitionCallbackReturn:
        # rclpy discards exceptions of a transition, so they must be logged here.
        self._failure = None
        try:
            step()
        except KeyboardInterrupt as error:
            self._failure, self.exit_code = error, 0
        except Exception as error:
            self._failure = error
            if self.stopping:
                # The process is ending. The compiler may convert the interrupt into an error of its
                # own, which is of no interest.
                self.exit_code = 0
            else:
                known = isinstance(error, RbdControlError)
                self.get_logger().error(f"cannot {what}: {error if known else describe(error)}")
        return _FAILURE if self._failure else _SUCCESS

    def _configure(self) -> None:
        self._refuse_when_stopping()
        self.is_configuring = True
        try:
            self._find_model_and_configure()
        finally:
            self.is_configuring = False

    def _find_model_and_configure(self) -> None:
        parameters = self.parameters
        if self.needs_model:
            arm = self._arm_parameters()
            text = description_text(arm) or self._described
            if not text:
                raise ModelError(f"no robot description; {self._where_from()}")
            self.robot = self._make_robot(arm, text)
            self.check_robot()
        self.configure()
        self._configured = True
        if self._scout:
            self._scout.stop()
        # The first log line of rclpy takes 35 ms; write it before the node is active.
        self.get_logger().info(f"configured{self._of_the_arm()}")
        # The present objects live as long as the process. Each pass of Python's garbage collector
        # over them would delay samples by tens of milliseconds.
        gc.collect()
        gc.freeze()
        if parameters.thread_priority:
            refused = take_priority(parameters.thread_priority)
            if refused:
                self.get_logger().warning(f"no thread_priority: {refused}")

    def _make_robot(self, arm: RobotParameters, text: str) -> Robot:
        """Build the arm; log warnings about its description, and the fixed joints."""
        reported: Mapping[str, float] = {}
        measured: tuple[str, ...] = ()
        if self._scout:
            reported = self._scout.reported.positions
            measured = self._scout.measured(arm, text)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ModelWarning)
            robot = Robot.of(arm, text, reported=reported, measured=measured)
        for warning in said:
            self.get_logger().warning(str(warning.message))
        if robot.held:
            self.get_logger().info(f"held joints: {held_in_words(robot.held, reported)}")
        return robot

    def _of_the_arm(self) -> str:
        """Return joints and payload as text; empty for a node without an arm."""
        if not self.needs_model:
            return ""
        arm = self.robot.parameters
        joints = f": {', '.join(self.robot.joints)}"
        if not arm.payload_mass:
            return joints
        link = arm.payload_link or self.robot.model.joint_links[-1]
        return f"{joints}; carrying {arm.payload_mass:g} kg on {link}"

    def _activate(self) -> None:
        self._refuse_when_stopping()
        missing = self.waiting_for()
        if missing:
            raise NotReadyError(f"waiting for {missing}")
        # After this point a signal must be able to deactivate the node.
        self.before_activation()
        self._refuse_when_stopping()
        self.activate()
        self._is_active = True

    def _refuse_when_stopping(self) -> None:
        if self.stopping:
            raise NotReadyError("the node is stopping")

    def _deactivate(self) -> None:
        if self._is_active:
            self._is_active = False
            self.deactivate()

    def _cleanup(self) -> None:
        self._configured = False
        self.cleanup()
        if self._scout:
            self._scout.start()

    # Start -----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Try to configure and activate; called periodically until the node was active once."""
        # A timer that was destroyed may still fire once.
        if not self.is_starting or self.stopping:
            return
        if not self._configured:
            if self.needs_model and not self._described and not self._has_description():
                self._wait(f"a robot description; {self._where_from()}")
                return
            undecided = self._undecided()
            if undecided:
                self._wait(undecided)
                return
            self.trigger_configure()
        if self._configured:
            missing = self.waiting_for()
            if missing:
                self._wait(missing)
                return
            self.trigger_activate()
            if isinstance(self._failure, NotReadyError):
                return
        if self._failure and self.exit_code is None:
            self.exit_code = 1
        self._waiting, self.is_starting = "", False
        self.destroy_timer(self._starter)

    def _undecided(self) -> str:
        """Return the missing messages for the choice of joints; empty if none is missing.

        Errors of the description are reported when the node is configured.
        """
        if not self._scout:
            return ""
        with suppress(RbdControlError):
            arm = self._arm_parameters()
            return self._scout.waiting_for(arm, description_text(arm) or self._described)
        return ""

    def _has_description(self) -> bool:
        arm = self._arm_parameters()
        return bool(arm.robot_description or arm.urdf)

    def _arm_parameters(self) -> RobotParameters:
        """Return the parameters as parameters of an arm, which all nodes with a model have."""
        parameters: Parameters = self.parameters
        if not isinstance(parameters, RobotParameters):
            raise TypeError(f"{type(parameters).__name__} describes no arm; derive ModelParameters")
        return parameters

    def _wait(self, what: str) -> None:
        self._waiting = what
        self.get_logger().info(f"waiting for {what}", throttle_duration_sec=5.0, skip_first=True)

    def _where_from(self) -> str:
        topic = self.resolve_topic_name("robot_description")
        return f"give robot_description or urdf, or publish it on {topic}"

    def _on_description(self, message: String) -> None:
        if self._has_description():
            return
        if self._configured and message.data != self.robot.urdf:
            self.get_logger().warning(
                "another robot description arrived and is ignored until the node is configured anew"
            )
        self._described = message.data

    def _state(self) -> str:
        return cast("str", self._state_machine.current_state[1])

    def _report_state(self, status: Status) -> None:
        state = self._state()
        status.add("state", state)
        if not self.is_active:
            status.raise_to(
                WARN, f"{state}, waiting for {self._waiting}" if self._waiting else state
            )
