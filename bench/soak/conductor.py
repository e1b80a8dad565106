"""Execution of the schedule of a soak: one item at a time, with recovery after each item.

An item is a push, a motion or a fault. The nodes work normally if torques and verdicts of the
detector arrive, there is no contact, and ``~/resume`` of the controller succeeds.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import numpy as np
from geometry_msgs.msg import Vector3, WrenchStamped
from rcl_interfaces.msg import Parameter, ParameterType
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from rclpy.task import Future
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from bench.fuzz.raw import damaged
from bench.rig import Rig
from bench.soak import schedule
from bench.soak.ear import ARM, CONTROLLER, DETECTOR, Ear
from bench.soak.faults import Order
from bench.soak.motion import make_motion, make_push
from bench.soak.schedule import FAULTS, MOTION, PUSH, Item
from rbd_control.dynamics import Model, frame_placement
from rbd_control.ros.run import make_executor

FOREIGN = 0.125
"""Torque of each joint that the second publisher sends and that identifies it [N·m]."""

RECOVERY = 20.0
"""Maximum time from the end of an item until the nodes work normally again [s].

After a restart, the time for which the new process waits for a processor does not count, up to
:data:`MOST_WAITED`: it starts with normal priority, and the other nodes have real-time priority.
"""

MOST_WAITED = 100.0
"""Maximum time of waiting for a processor that does not count after a restart [s]."""

STEADY = 0.4
"""Duration of normal work that is required before the next item [s]."""

PUSHED = 1.0
"""Time for a push, its release and the arm's reaction [s]."""

EVERY = 0.1
"""Period at which ``~/resume`` is called while the nodes recover [s]."""

_STOPPED = {
    "controller stopped": CONTROLLER,
    "detector stopped": DETECTOR,
    "arm stopped": ARM,
}
_CHANGES: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "controller parameters": (
        CONTROLLER,
        (
            ("bandwidth", [30.0]),
            ("bandwidth", [40.0]),
            ("damping_rate", 60.0),
            ("damping_rate", 80.0),
            ("stop_time", 0.15),
            ("stop_time", 0.1),
            ("contact_reaction", "float"),
            ("contact_reaction", "none"),
            ("contact_reaction", "hold"),
        ),
    ),
    "detector parameters": (
        DETECTOR,
        (
            ("observer_gain", [40.0]),
            ("observer_gain", [50.0]),
            ("release_debounce", 0.2),
            ("release_debounce", 0.15),
            ("collision_threshold", [70.0, 70.0, 50.0, 50.0, 30.0, 30.0, 30.0]),
        ),
    ),
    "refused parameters": (
        CONTROLLER,
        (
            ("bandwidth", [-1.0]),
            ("stop_time", 1e9),
            ("contact_reaction", "jump"),
            ("damping", [1.0] * 3),
        ),
    ),
}  # fmt: skip


class Conductor:
    """Executes the items of a schedule, one at a time.

    Call :meth:`begin` with an item if :attr:`is_free`, and :meth:`step` in a loop.

    Args:
        node: node that sends the orders.
        ear: listener, to which the items report the times in which faults are excused.
        rig: the processes of the nodes.
        model: the arm.
        thresholds: contact thresholds of the detector, (nv,) [N·m].

    Attributes:
        done: number of executed items by kind.
        skipped: number of items by kind that could not be executed: pushes, if no push was
            possible in the present posture.
        failures: descriptions of failed recoveries.
        staged: for each push, the largest ratio of a joint torque to the threshold of the joint.
        restarts: for each restart of the detector, the time until the nodes worked normally again,
            and how long of it the new process waited for a processor [s].
        doing: kind of the present item; empty without an item.
    """

    def __init__(
        self, node: Node, ear: Ear, rig: Rig, model: Model, thresholds: np.ndarray
    ) -> None:
        self._node, self._ear, self._rig = node, ear, rig
        self._model, self._thresholds = model, thresholds
        self._executor = make_executor()
        self._executor.add_node(node)
        self.done: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.failures: list[str] = []
        self.staged: list[float] = []
        self.restarts: list[tuple[float, float]] = []
        self.doing = ""
        self._item: Item | None = None
        self._begun = self._until = 0.0
        self._deadline = time.monotonic() + RECOVERY
        self._good_since: float | None = None
        self._asked = 0.0
        self._answer: Future | None = None
        self._futures: list[Future] = []
        self._after: Callable[[], None] | None = None
        self._publishers = {
            kind: node.create_publisher(kind, topic, QoSProfile(depth=10))
            for kind, topic in (
                (String, f"/{ARM}/fault"),
                (WrenchStamped, f"/{ARM}/external_wrench"),
                (JointTrajectory, f"/{CONTROLLER}/joint_trajectory"),
            )
        }
        self._clients: dict[str, Any] = {}

    @property
    def is_free(self) -> bool:
        """Whether the nodes work normally and no item is in progress."""
        return self._item is None and self._is_steady(time.monotonic())

    def step(self) -> None:
        """Continue the present item; call this method at least every few milliseconds.

        The method returns after at most some milliseconds.
        """
        self._executor.spin_until_future_complete(Future(), timeout_sec=0.001)
        now = time.monotonic()
        if now >= self._until and self._after is not None:
            after, self._after = self._after, None
            after()
        if now >= self._until:
            self._watch(now)
        if now < self._until:
            return
        if self._item is None:
            self._watch_idle(now)
        elif self._is_steady(now):
            self._end()
        elif self._is_overdue(self._item, now):
            self.failures.append(
                f"no normal work {RECOVERY:g} s after {self._item.kind}: {self._why}"
            )
            if self._item.kind == schedule.RESTART:
                # Samples sent before the new process has a subscription are not lost by it.
                self._deadline = inf
            else:
                self._end()

    def _is_overdue(self, item: Item, now: float) -> bool:
        """Return whether the time for the recovery from the present item has passed."""
        if now <= self._deadline:
            return False
        waited = self._rig.waited(DETECTOR) if item.kind == schedule.RESTART else 0.0
        return now > self._deadline + min(waited, MOST_WAITED)

    def _watch_idle(self, now: float) -> None:
        """Record a failure if no item can begin because the nodes do not work normally."""
        if self._is_steady(now):
            self._deadline = now + RECOVERY
        elif now > self._deadline:
            self.failures.append(f"no normal work for {RECOVERY:g} s between items: {self._why}")
            self._deadline = now + RECOVERY

    def begin(self, item: Item) -> None:
        """Start an item; call it only if :attr:`is_free`."""
        random = Random(item.seed)
        self._item, self.doing, self._good_since = item, item.kind, None
        now, wall = time.monotonic(), time.time_ns()
        self._begun = now
        lasts = FAULTS[item.kind].lasts if item.kind in FAULTS else 0.0
        if item.kind in FAULTS and not FAULTS[item.kind].spares_samples:
            # The last counts of a process that ends are not reported any more.
            is_restart = item.kind == schedule.RESTART
            begin = self._ear.told[DETECTOR].reported if is_restart else wall
            self._ear.sample_windows.open(begin or wall)
        if item.kind in FAULTS and not FAULTS[item.kind].spares_torque:
            self._ear.torque_windows.open(wall)
        self._until = now + lasts
        self.done[item.kind] += 1
        if item.kind == PUSH:
            self._push(random, now)
        elif item.kind == MOTION:
            assert self._ear.state is not None
            self._publish(make_motion(random, self._model.joint_names, self._ear.state[0]))
        elif item.kind in schedule.IN_JOINT_STATES:
            order = Order(item.kind, max(round(1e3 * lasts), 1), random.randrange(self._model.nv))
            self._publish(String(data=order.to_text()))
        elif item.kind in schedule.ORDERS:
            self._call(Trigger, f"/{CONTROLLER}/{item.kind}", Trigger.Request())
        elif item.kind in _CHANGES:
            self._change(random, item.kind)
        elif item.kind in _STOPPED:
            name = _STOPPED[item.kind]
            self._rig.signal(name, signal.SIGSTOP)
            self._after = lambda: self._rig.signal(name, signal.SIGCONT)
        elif item.kind == schedule.RESTART:
            self._rig.end(DETECTOR)
            self._ear.reports.pop(DETECTOR, None)
            self._rig.start(DETECTOR)
        elif item.kind == "second torque publisher":
            self._rival()
        elif item.kind == "garbage on topics":
            self._garbage(random)
        else:
            raise ValueError(f"nothing is done for the item {item.kind!r}")
        self._deadline = self._until + RECOVERY

    # Items -----------------------------------------------------------------------------------

    def _push(self, random: Random, now: float) -> None:
        assert self._ear.state is not None
        push = make_push(random, self._model, self._ear.state[0], self._thresholds)
        if push is None:
            self.done[PUSH] -= 1
            self.skipped[PUSH] += 1
            return
        message = WrenchStamped()
        message.header.frame_id = push.link
        # The arm expects components along the axes of the link.
        rotation = frame_placement(self._model, self._ear.state[0], push.link)[:3, :3]
        x, y, z = (float(part) for part in push.force @ rotation)
        message.wrench.force = Vector3(x=x, y=y, z=z)
        self._publish(message)
        self.staged.append(push.ratio)
        self._until = now + PUSHED

    def _change(self, random: Random, kind: str) -> None:
        name, changes = _CHANGES[kind]
        parameter, value = random.choice(changes)
        request = SetParameters.Request(parameters=[_parameter(parameter, value)])
        self._call(SetParameters, f"/{name}/set_parameters", request)

    def _rival(self) -> None:
        publisher = self._node.create_publisher(
            Float64MultiArray, "/soak/effort_controller/commands", QoSProfile(depth=1)
        )
        publisher.publish(Float64MultiArray(data=[FOREIGN] * self._model.nv))
        self._after = lambda: self._node.destroy_publisher(publisher)

    def _garbage(self, random: Random) -> None:
        for kind in (WrenchStamped, JointTrajectory):
            sound = serialize_message(kind())
            for _ in range(3):
                self._publishers[kind].publish(damaged(random, sound))

    # Recovery --------------------------------------------------------------------------------

    def _watch(self, now: float) -> None:
        """Call ``~/resume`` periodically, and record since when the nodes work normally."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer.result(), None
            resumed = answer is not None and answer.success
            fresh = now - self._ear.verdict_at < 0.3 and now - self._ear.torque_at < 0.3
            if resumed and fresh and not self._ear.verdict:
                self._good_since = self._good_since or now
            else:
                self._good_since = None
        if self._item is not None or self._good_since is None:
            if self._answer is None and now - self._asked > EVERY:
                self._asked = now
                self._answer = self._call(Trigger, f"/{CONTROLLER}/resume", Trigger.Request())
            elif self._answer is not None and now - self._asked > 2.0:
                self._answer = None  # lost with a node that was stopped or restarted
        elif now - self._ear.verdict_at > 0.3:
            self._good_since = None

    def _is_steady(self, now: float) -> bool:
        return self._good_since is not None and now - self._good_since > STEADY

    @property
    def _why(self) -> str:
        reports = {name: self._ear.reports.get(name) for name in (CONTROLLER, DETECTOR)}
        return "; ".join(
            f"{name}: {report[1] if report else 'no diagnostics'}"[:150]
            for name, report in reports.items()
        )

    def _end(self) -> None:
        wall = time.time_ns()
        self._ear.sample_windows.close(wall)
        self._ear.torque_windows.close(wall)
        if self._item is not None and self._item.kind == schedule.RESTART:
            took = time.monotonic() - self._begun
            self.restarts.append((took, self._rig.waited(DETECTOR)))
        self._item, self.doing = None, ""
        self._deadline = time.monotonic() + RECOVERY
        # Calls without an answer are discarded with the item.
        self._futures = [future for future in self._futures if not future.done()][-20:]

    # Wire ------------------------------------------------------------------------------------

    def _publish(self, message: Any) -> None:
        self._publishers[type(message)].publish(message)

    def _call(self, kind: Any, service: str, request: Any) -> Future | None:
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self._node.create_client(kind, service)
        if not client.service_is_ready():
            return None
        future: Future = client.call_async(request)
        self._futures.append(future)
        return future


def _parameter(name: str, value: Any) -> Parameter:
    parameter = Parameter(name=name)
    if isinstance(value, str):
        parameter.value.type = ParameterType.PARAMETER_STRING
        parameter.value.string_value = value
    elif isinstance(value, list):
        parameter.value.type = ParameterType.PARAMETER_DOUBLE_ARRAY
        parameter.value.double_array_value = value
    else:
        parameter.value.type = ParameterType.PARAMETER_DOUBLE
        parameter.value.double_value = value
    return parameter
