"""Start of the nodes under test, and restoration of their normal operation after each scene.

A scene is a group of fuzzed inputs, see :mod:`bench.fuzz.plan`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.msg import Parameter
from std_msgs.msg import String
from std_srvs.srv import Trigger

from bench.fuzz.arm import Arm
from bench.fuzz.inputs import message_input
from bench.fuzz.loops import TOGETHER, Loop
from bench.fuzz.monitor import LoopMonitor
from bench.fuzz.plan import Topic
from bench.fuzz.requests import Interface
from bench.fuzz.result import Failure
from bench.fuzz.wire import Wire
from bench.rig import Rig

ANSWER = 120.0
"""Longest time that a node may take to answer a service [s].

A node that has been started again first loads its compiled code, and a burst may activate a
controller several times, each time for ``discovery_time`` (3.5 s).
"""

STARTING = 180.0
"""Longest time that nodes may take to start; the first time, they compile [s]."""

RECOVERY = 60.0
"""Longest time from the last fuzzed input until the nodes work normally again [s]."""

LATER = 0.1
"""Time after the last fuzzed input from which all messages are from the nodes themselves [s]."""

NOT_FINITE = "its joint states are not finite"
"""Failure of the simulated arm that persists until it is restarted."""

CONFIGURE, CLEAN_UP, ACTIVATE, DEACTIVATE = 1, 2, 3, 4
"""Lifecycle transitions."""

UNCONFIGURED, INACTIVE, ACTIVE, FINALIZED = 1, 2, 3, 4
"""Lifecycle states."""


class Care:
    """Starts the nodes under test, and restores their normal operation.

    Args:
        rig: processes of the nodes.
        wire: connection to the nodes.
        monitors: listener on each closed loop.
        arm: the arm of the nodes.
        started: called with the name of each node at each of its starts.
    """

    def __init__(
        self,
        rig: Rig,
        wire: Wire,
        monitors: Mapping[Loop, LoopMonitor],
        arm: Arm,
        started: Callable[[str], None],
    ) -> None:
        self._rig, self._wire, self._monitors = rig, wire, monitors
        self._started = started
        self._originals: dict[str, dict[str, Any]] = {}
        description = String(data=arm.urdf)
        self._descriptions = [
            message_input(
                "", f"/{loop.namespace}/robot_description", "std_msgs/msg/String", description
            )
            for loop in monitors
        ]

    def start(self, name: str) -> None:
        """Start a node that does not run, and report the start."""
        self._rig.start(name)
        self._started(name)

    def bring_up(self) -> tuple[list[Topic], list[Interface]]:
        """Start all nodes and wait until they work; return their topics and services.

        Raises:
            RuntimeError: if a node does not work within :data:`STARTING`, or does not report its
                services and parameters.
        """
        for name in self._rig.names:
            self.start(name)
        begin = time.monotonic()
        troubles = self._troubles(begin, STARTING)
        if troubles:
            raise RuntimeError("; ".join(f"{name}: {why}" for name, why in troubles.items()))
        interfaces = []
        for name in self._rig.names:
            interface = self._wire.interface(name)
            values = self._wire.parameters(name, ANSWER)
            if interface is None or values is None:
                raise RuntimeError(f"{name} does not tell its services and parameters")
            interfaces.append(interface)
            self._originals[name] = values
        return self._topics(), interfaces

    def _topics(self) -> list[Topic]:
        found: dict[tuple[str, str], list[str]] = {}
        for name in self._rig.names:
            for topic, kind in self._wire.subscriptions(name).items():
                found.setdefault((topic, kind), []).append(name)
        return [Topic(topic, kind, tuple(names)) for (topic, kind), names in found.items()]

    def recover(self) -> list[Failure]:
        """Restore the normal operation of all nodes; return the nodes that did not recover.

        Parameters get their initial values, inactive nodes are activated, and the controllers
        resume. A node that does not work within :data:`RECOVERY` is a failure and is started again.
        """
        failures = []
        begin = time.monotonic()
        # A restarted node receives the latched description, which may be a fuzzed description.
        self._wire.publish(self._descriptions)
        for name in self._rig.names:
            why = self._restore(name)
            if why:
                failures.append(Failure("not recovered", name, why))
                self._start_again(name)
        for name, why in self._troubles(begin, RECOVERY).items():
            failures.append(Failure("not recovered", name, why))
            self._start_again(name)
        if failures:
            left = self._troubles(time.monotonic(), STARTING)
            failures += [Failure("not restarted", name, why) for name, why in left.items()]
        return failures

    def use_simulated_time(self, names: tuple[str, ...], on: bool) -> None:
        """Switch simulated time (``use_sim_time``) on or off in the nodes ``names``."""
        for name in names:
            parameter = Parameter(name="use_sim_time")
            parameter.value.type, parameter.value.bool_value = 1, on
            self._wire.set_parameters(name, [parameter], ANSWER)

    def clean_up(self, names: tuple[str, ...]) -> None:
        """Deactivate and clean up the nodes ``names``, so that they are unconfigured."""
        for name in names:
            for transition in (DEACTIVATE, CLEAN_UP):
                self._wire.change_state(name, transition, ANSWER)

    # Inside ----------------------------------------------------------------------------------

    def _start_again(self, name: str) -> None:
        self._rig.end(name)
        self.start(name)

    def _restore(self, name: str) -> str:
        """End a finalized node, or restore the parameters of any other node; return the failure."""
        if self._rig.exit_code(name) is not None:
            self.start(name)
            return ""
        state = self._wire.state(name, ANSWER)
        if state is None and self._rig.exit_code(name) is not None:
            self.start(name)  # the other node of its process was shut down, which ended both
            return ""
        if state is None:
            return "lifecycle state not told"
        if state == FINALIZED:
            code = self._rig.end(name)
            self.start(name)
            return "" if code == 0 else f"ended with code {code} after its shutdown transition"
        changed = self._changed(name)
        if not changed:
            return ""
        refused = self._wire.set_parameters(name, changed, ANSWER)
        if refused:
            # Some can be changed only while the node is not configured.
            self._make_way(name)
            self.clean_up((name,))
            refused = self._wire.set_parameters(name, self._changed(name), ANSWER)
        return f"parameters cannot be restored: {'; '.join(refused)}" if refused else ""

    def _make_way(self, name: str) -> bool:
        """Deactivate the controller in the process of a detector; return whether there is one.

        While it is active, it keeps the detector from being configured.
        """
        loops = [loop for loop in self._monitors if loop is TOGETHER and loop.detector == name]
        controllers = [loop.controller for loop in loops]
        for controller in controllers:
            self._wire.change_state(controller, DEACTIVATE, ANSWER)
        return bool(controllers)

    def _changed(self, name: str) -> list[Parameter]:
        """Return the initial values of the parameters that have changed since the node's start."""
        values = self._wire.parameters(name, ANSWER) or {}
        return [
            Parameter(name=key, value=value)
            for key, value in self._originals[name].items()
            if values.get(key) != value
        ]

    def _troubles(self, begin: float, seconds: float) -> dict[str, str]:
        """Work toward normal operation; return what is missing, by node, at the deadline.

        Args:
            begin: time of the last fuzzed input on the steady clock [s].
            seconds: longest time to work on it [s].
        """
        deadline = time.monotonic() + seconds
        while True:
            troubles = self._inactive() or self._idle(begin)
            if not troubles or time.monotonic() > deadline or NOT_FINITE in troubles.values():
                return troubles
            self._wire.spin(0.05)

    def _inactive(self) -> dict[str, str]:
        """Activate inactive nodes; return the nodes that remain inactive, with the reason."""
        troubles = {}
        order = [name for loop in self._monitors for name in loop.nodes]
        order += [name for name in self._rig.names if name not in order]
        for name in order:
            if self._rig.exit_code(name) is not None:
                troubles[name] = f"ended with code {self._rig.exit_code(name)}"
                continue
            state = self._wire.state(name, 1.0)
            if state == UNCONFIGURED:
                self._wire.publish(self._descriptions)
                self._wire.spin(0.05)
                self._wire.change_state(name, CONFIGURE, ANSWER)
                state = self._wire.state(name, ANSWER)
            if state == UNCONFIGURED and self._make_way(name):
                self._wire.change_state(name, CONFIGURE, ANSWER)
                state = self._wire.state(name, ANSWER)
            if state == INACTIVE:
                self._wire.change_state(name, ACTIVATE, ANSWER)
                state = self._wire.state(name, ANSWER)
            if state != ACTIVE:
                troubles[name] = f"not active: lifecycle state {state}"
        return troubles

    def _idle(self, begin: float) -> dict[str, str]:
        """Call ``~/resume`` of the controllers; return the nodes that do not work, and why."""
        troubles: dict[str, str] = {}
        for loop, monitor in self._monitors.items():
            troubles |= self._idle_in(loop, monitor, begin)
        return troubles

    def _idle_in(self, loop: Loop, monitor: LoopMonitor, begin: float) -> dict[str, str]:
        """Do the work of :meth:`_idle` for the nodes of one loop."""
        if monitor.state_at < begin + LATER:
            return {loop.arm: "no joint states"}
        if not monitor.state_is_finite:
            return {loop.arm: NOT_FINITE}
        answer = self._wire.call(Trigger, f"/{loop.controller}/resume", Trigger.Request(), ANSWER)
        if answer is None or not answer.success:
            why = "does not answer" if answer is None else answer.message
            return {loop.controller: f"~/resume: {why}"}
        self._wire.spin(0.05)
        if monitor.torque_at < begin + LATER:
            return {loop.controller: "no torque"}
        if monitor.verdict_at < begin + LATER:
            report = self._wire.reports.get(loop.detector)
            return {loop.detector: f"no verdict: {report[1] if report else 'no diagnostics'}"}
        return {}
