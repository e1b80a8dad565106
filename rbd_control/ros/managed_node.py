"""The base class of the lifecycle nodes: parameters, robot, transitions and automatic start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer
from std_srvs.srv import Trigger

from rbd_control.errors import InputError, RbdControlError
from rbd_control.node_parameters import NodeParameters
from rbd_control.parameters import Parameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.callback_errors import describe
from rbd_control.ros.declared_parameters import DeclaredParameters, refusing_unknown_types
from rbd_control.ros.diagnostics import WARN, Diagnostics, Status
from rbd_control.ros.fault_tolerant_node import READERS_PERIOD, FaultTolerantNode
from rbd_control.ros.robot_source import RobotSource, joints_and_payload
from rbd_control.ros.threads import freeze_garbage, share_priority

PERIOD = 0.05
"""Period of the attempts to configure and to activate the node [s]."""

LOG_PERIOD = 5.0
"""Shortest time between two log lines about the condition that the node waits for [s]."""


class NotReadyError(RbdControlError):
    """The node cannot be activated yet: a condition is not met, or a signal ends the node.

    With ``autostart`` the activation is tried again every :data:`PERIOD`, unless the node ends.
    """


class AutoStart:
    """Configures and activates a node as soon as its conditions are met, once.

    A timer that the constructor creates makes an attempt every :data:`PERIOD`. A failed
    configuration or activation ends the process with exit code 1; only after a
    :class:`NotReadyError` of the activation the attempts continue. The automatic start ends with
    the first transition that a service call requests, see :meth:`give_up`, so that it cannot undo
    the decision of an operator.

    Args:
        node: the node.

    Attributes:
        is_pending: whether the attempts continue; False after the activation, after a failure that
            ends the process, and after :meth:`give_up`.
        obstacle: why the last attempt did not activate the node, such as "waiting for joint
            states"; empty before the first attempt and after the end of the automatic start.
    """

    def __init__(self, node: ManagedNode[NodeParameters]) -> None:
        self._node = node
        self.is_pending = True
        self.obstacle = ""
        self._timer: Timer = node.create_timer(PERIOD, self._try)

    def _try(self) -> None:
        """Try to configure the node, if it is not configured, and then to activate it."""
        node = self._node
        # A timer that was destroyed may still fire once.
        if not self.is_pending or node.stopping:
            return
        if not node.is_configured:
            if self._lacks(node.missing_to_configure()):
                return
            node.trigger_configure()
        if node.is_configured:
            if self._lacks(node.starts_after() or node.waiting_for()):
                return
            node.trigger_activate()
            if isinstance(node.failure, NotReadyError):
                self.obstacle = str(node.failure)
                return
        if node.failure and node.exit_code is None:
            node.exit_code = 1
        self._end()

    def give_up(self) -> None:
        """End the automatic start, because a lifecycle transition was requested by a service call.

        Call it before the transition. Later calls have no effect.
        """
        if self.is_pending:
            self._end()
            self._node.get_logger().info(
                "autostart ends: a lifecycle transition was requested; the node changes its state "
                "by further requests only"
            )

    def _end(self) -> None:
        self.obstacle, self.is_pending = "", False
        self._node.destroy_timer(self._timer)

    def _lacks(self, missing: str) -> bool:
        """Store a missing condition as ``obstacle``, log it, and return whether there is one."""
        self.obstacle = f"waiting for {missing}" if missing else ""
        if missing:
            self._node.get_logger().info(
                self.obstacle, throttle_duration_sec=LOG_PERIOD, skip_first=True
            )
        return bool(missing)


P_co = TypeVar("P_co", bound=NodeParameters, covariant=True)

_SUCCESS, _FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE


class ManagedNode(FaultTolerantNode, Generic[P_co]):
    """A lifecycle node with typed parameters, a robot model and an automatic start.

    A derived class sets ``parameters_type`` and overrides the hooks :meth:`configure`,
    :meth:`activate`, :meth:`deactivate` and :meth:`cleanup`. The first two may raise any
    :class:`~rbd_control.errors.RbdControlError`; the transition then fails with one line in the
    log. With the parameter ``autostart`` such a failure ends the node with :attr:`exit_code` 1,
    except that the activation is tried again after a
    :class:`NotReadyError`.

    Attributes:
        parameters: the current parameter object.
        robot: the arm of the configured node; not set before the first configuration, nor without
            ``needs_model``.
        exit_code: exit code with which the node requests the end of the process; None as long as
            the node continues.
        is_configuring: whether the node is being configured. It may compile for minutes and sends
            no commands, so that a signal may end the process at once.
        stopping: set by the first signal; afterwards the node is not active and starts no
            transition except its shutdown.
        before_activation: called without arguments at the beginning of each activation.
        check_robot: called without arguments when ``robot`` is known, before :meth:`configure`. An
            error of the package that it raises refuses the configuration.
        interrupts: called without arguments; returns the name of an active node of this process
            that sends torque, which a long callback of this node would interrupt, or an empty text.
            While there is such a node, this node refuses its configuration, and applies all changes
            of parameters in a request at once.
        starts_after: called without arguments; returns the condition in other nodes of this process
            that the automatic activation waits for, as text; empty if it is met.
        diagnostics: functions that fill in the status of the node for ``/diagnostics``.
        more_diagnostics: functions that return a further status for ``/diagnostics``, or None.

    Raises:
        ParameterError: by the constructor, for an unusable parameter.
    """

    parameters_type: type[P_co]
    needs_model: ClassVar[bool] = True
    """Whether the node needs a robot description before it can be configured."""
    reads_joint_states: ClassVar[bool] = False
    """Whether joint states are read before the configuration.

    They determine the joints of the arm if the parameter ``joints`` is empty, and the positions of
    fixed joints.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._is_active = self._is_configured = False
        self.is_configuring = False
        self.stopping = False
        self.before_activation: Callable[[], None] = lambda: None
        self.check_robot: Callable[[], None] = lambda: None
        self.interrupts: Callable[[], str] = lambda: ""
        self.starts_after: Callable[[], str] = lambda: ""
        self.exit_code: int | None = None
        self.robot: Robot
        self._failure: BaseException | None = None
        self._declared = DeclaredParameters(
            self,
            self.parameters_type,
            is_fixed=lambda: self._is_configured,
            check=self._check_parameters,
            changed=self._on_parameters_changed,
        )
        self._shorten_requests()
        self.get_logger().info(self._declared.summary(self.get_fully_qualified_name()))
        self._source: RobotSource | None = None
        if self.needs_model:
            self._source = RobotSource(
                self, self._arm_parameters, reads_joint_states=self.reads_joint_states
            )
        self.diagnostics: list[Callable[[Status], None]] = [
            self._report_state,
            self.errors.report,
            self.refusals.report,
        ]
        self.more_diagnostics: list[Callable[[], DiagnosticStatus | None]] = []
        Diagnostics(self, self.diagnostics, self.more_diagnostics)
        if any(output.while_read for output in self.outputs):
            self.create_timer(READERS_PERIOD, self.look_for_readers)
        self._autostart: AutoStart | None = None
        if self.parameters.autostart:
            self._autostart = AutoStart(self)
            self._give_way(self._autostart)

    @property
    def parameters(self) -> P_co:
        """The current parameter object, of class ``parameters_type``."""
        return self._declared.current

    @property
    def is_active(self) -> bool:
        """Whether the node is in the lifecycle state active and no signal has asked it to end."""
        return self._is_active and not self.stopping

    @property
    def is_configured(self) -> bool:
        """Whether :meth:`configure` has succeeded since the last :meth:`cleanup`."""
        return self._is_configured

    @property
    def is_starting(self) -> bool:
        """Whether the node is going to be configured and activated by ``autostart``.

        It is False without ``autostart``, after the first activation or a failure, and once
        another node or a user has requested a transition.
        """
        return self._autostart is not None and self._autostart.is_pending

    @property
    def failure(self) -> BaseException | None:
        """The exception of the last transition; None if the transition succeeded."""
        return self._failure

    # Hooks -----------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the objects that depend on ``parameters`` and ``robot``; the default does nothing.

        Raises:
            RbdControlError: to refuse the configuration.
        """

    def activate(self) -> None:
        """Start publishing; the default does nothing.

        Raises:
            RbdControlError: to refuse the activation.
        """

    def deactivate(self) -> None:
        """Stop publishing; called only while the node is active, also before the process ends."""

    def cleanup(self) -> None:
        """Destroy the objects that :meth:`configure` created; the default does nothing."""

    def waiting_for(self) -> str:
        """Return the missing condition for the activation.

        An empty text means that the node can be activated.
        """
        return ""

    # The node calls this method only with objects of its own ``parameters_type``, so a covariant
    # type parameter is safe.
    def check_parameters(self, new: P_co) -> None:  # type: ignore[misc]
        """Refuse parameters that do not fit the configured node; the default accepts all.

        Args:
            new: the complete parameter object after the requested change.

        Raises:
            ValueError: to refuse the change, with the reason for the sender.
        """

    def parameters_changed(self) -> None:
        """Apply the new :attr:`parameters` to the configured node; the default does nothing."""

    def on_compiling(self, kernel: str) -> None:
        """Log once that compilation delays the start.

        ``rbd-control warmup`` compiles ahead of time.

        Args:
            kernel: name of the function that numba begins to compile.
        """
        self.get_logger().info(
            f"compiling {kernel} and other functions not stored yet, which takes a minute or two",
            once=True,
        )

    # Parameters ------------------------------------------------------------------------------

    def _check_parameters(self, new: P_co) -> None:  # type: ignore[misc]  # as check_parameters
        if self._is_configured:
            self.check_parameters(new)

    def _on_parameters_changed(self, _new: NodeParameters) -> None:
        if self._is_configured:
            self.errors.run("parameters_changed", self.parameters_changed)

    def _arm_parameters(self) -> RobotParameters:
        """Return the parameters as parameters of an arm, which all nodes with a model have."""
        parameters: Parameters = self.parameters
        if not isinstance(parameters, RobotParameters):
            name = type(parameters).__name__
            raise TypeError(f"{name} describes no arm; derive it from ModelParameters")
        return parameters

    @property
    def sends_torque(self) -> bool:
        """Whether the torque of this node, or of another one in its process, must not pause."""
        return bool(self.interrupts())

    def _shorten_requests(self) -> None:
        """Let a request for several changes take the time of one change while torque is sent."""
        services = {service.srv_type: service for service in self.services}
        together = self._declared.taking_together(
            services[SetParameters].callback,
            services[SetParametersAtomically].callback,
            lambda: self.sends_torque,
        )
        services[SetParameters].callback = refusing_unknown_types(together)

    # Services --------------------------------------------------------------------------------

    def offer(self, name: str, order: Callable[[], str | None]) -> None:
        """Offer the service ``~/name`` of type ``std_srvs/srv/Trigger``.

        Args:
            name: name of the service.
            order: executes a request, and returns the text of the answer. An error of the package
                refuses the request; so does the service itself while the node is not active.
        """
        self.create_service(
            Trigger, f"~/{name}", lambda _request, response: self.answer(name, order, response)
        )

    def answer(
        self, name: str, order: Callable[[], str | None], response: Trigger.Response
    ) -> Trigger.Response:
        """Execute a request of a service, see :meth:`offer`; log and return the answer."""
        try:
            if not self.is_active:
                raise NotReadyError("the node is not active")
            response.message = order() or ""
            response.success = True
        except RbdControlError as error:
            response.message = str(error)
        self.get_logger().info(f"{name}: {response.message or 'done'}")
        return response

    # Lifecycle -------------------------------------------------------------------------------

    def _give_way(self, autostart: AutoStart) -> None:
        """End the automatic start when the lifecycle service is called, before the transition."""
        for service in self.services:
            if service.srv_type is ChangeState:
                change = service.callback

                def answer(request: object, response: object, change: Any = change) -> object:
                    autostart.give_up()
                    return change(request, response)

                service.callback = answer

    def on_configure(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Build ``robot`` from its description and call :meth:`configure`.

        After an error the transition returns FAILURE and logs the error, and the node stays
        unconfigured.
        """
        return self._transition("configure", self._configure)

    def on_activate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`activate`, or refuse while :meth:`waiting_for` names a missing condition.

        A refused transition returns FAILURE, logs the condition, and leaves the node inactive.
        """
        return self._transition("activate", self._activate)

    def on_deactivate(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`deactivate`, if the node is active.

        The result is SUCCESS even after an exception, which is logged: the node is inactive by
        then, and after FAILURE its state would be "active" again.
        """
        self._transition("deactivate", self._deactivate)
        return _SUCCESS

    def on_cleanup(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`cleanup`."""
        return self._transition("clean up", self._cleanup)

    def on_shutdown(self, _state: LifecycleState) -> TransitionCallbackReturn:
        """Call :meth:`deactivate`, if the node is active, so that it leaves no motion running."""
        return self._transition("shut down", self._deactivate)

    def end(self) -> None:
        """Deactivate and shut down the node permanently; it sends nothing afterwards.

        Call it before the process ends, in any state of the node. Errors are logged, not raised.
        """
        self.stopping = True
        self.errors.run("deactivate", self._deactivate)
        if self._state() in ("unconfigured", "inactive", "active"):
            self.errors.run("shutdown", self.trigger_shutdown)

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

    def missing_to_configure(self) -> str:
        """Return the missing condition for the configuration, such as a robot description.

        An empty text means that the node can be configured.
        """
        interrupted = self.interrupts()
        if interrupted:
            return (
                f"{interrupted} to be deactivated, as the configuration would interrupt its torque"
            )
        return "" if self._source is None else self._source.missing()

    @property
    def contradiction(self) -> str:
        """Why the model may be wrong: another description was published; empty if it was not."""
        return "" if self._source is None else self._source.contradiction

    def _configure(self) -> None:
        self.refuse_when_stopping()
        interrupted = self.interrupts()
        if interrupted:
            raise InputError(
                f"{interrupted} is active in this process, and the configuration would interrupt "
                f"its torque; deactivate {interrupted} first"
            )
        self.is_configuring = True
        try:
            self._find_model_and_configure()
        finally:
            self.is_configuring = False

    def _find_model_and_configure(self) -> None:
        what = ""
        if self._source is not None:
            missing = self._source.missing_positions()
            if missing:
                raise NotReadyError(f"waiting for {missing}")
            self.robot = self._source.make()
            self.check_robot()
            what = f": {joints_and_payload(self.robot)}"
        self.configure()
        self._is_configured = True
        if self._source is not None:
            self._source.use(self.robot)
        # The first log line of rclpy takes 35 ms; write it before the node is active.
        self.get_logger().info(f"configured{what}")
        freeze_garbage()
        name = self.get_fully_qualified_name()
        refused = share_priority(name, self.parameters.thread_priority)
        if refused:
            self.get_logger().warning(f"no thread_priority: {refused}")

    def _activate(self) -> None:
        self.refuse_when_stopping()
        missing = self.waiting_for()
        if missing:
            raise NotReadyError(f"waiting for {missing}")
        # After this point a signal must be able to deactivate the node.
        self.before_activation()
        self.refuse_when_stopping()
        self.activate()
        self._is_active = True

    def refuse_when_stopping(self) -> None:
        """Raise a :class:`NotReadyError` if a signal has asked the node to end."""
        if self.stopping:
            raise NotReadyError("the node is stopping")

    def _deactivate(self) -> None:
        if self._is_active:
            self._is_active = False
            self.deactivate()

    def _cleanup(self) -> None:
        self._is_configured = False
        self.cleanup()
        if self._source is not None:
            self._source.release()

    def _state(self) -> str:
        return cast("str", self._state_machine.current_state[1])

    def _report_state(self, status: Status) -> None:
        state = self._state()
        status.add("state", state)
        if not self.is_active:
            obstacle = "" if self._autostart is None else self._autostart.obstacle
            text = f"{state}, {obstacle}" if obstacle else state
            status.raise_to(WARN, text, is_logged=True)
        if self._source is not None:
            self._source.report(status)
