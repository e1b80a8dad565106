"""Run the examples: ``python -m bench.examples [NAME ...]``, all of them by default.

Those for ROS run beside the nodes of the demo, in a ROS domain of their own. A stand-in pushes the
arm while an example waits for contact, and takes the place of MoveIt's controller.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbd_control.errors import RbdControlError
from rbd_control.ros.processes import NodeProcesses, environment, reserved_domain
from rbd_control.share import share_directory

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

PUSHED = {"react_to_contact": False, "stop_moveit": False}
"""Examples for which the arm is pushed: always, or only until the detector finds the contact."""

CONNECTED = 0.5
"""Time from the appearance of a node until its topics and services are connected [s]."""

LONGEST = 300.0
"""Time after which an example is killed; without compiled code it compiles first [s]."""

NODES = {
    "simulated_arm": ["rate:=250.0", "push_timeout:=0.3"],
    "contact_aware_controller": [
        "contact_detector:tool_frame:=tool",
        "passivity_controller:bandwidth:=[15.0]",
        "passivity_controller:damping_rate:=30.0",
    ],
}
"""The nodes, with their parameters beside config/demo.yaml.

A lower rate than the demo's costs less, and permits lower gains only."""


def names() -> list[str]:
    """Return the names of all examples."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


def needs_ros(name: str) -> bool:
    """Return whether an example runs beside nodes."""
    return "import rclpy" in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")


class StandIn:
    """Pushes the arm, and answers the orders that MoveIt and its controller get.

    Attributes:
        orders: the orders received so far.
    """

    def __init__(self, domain: int) -> None:
        import rclpy
        from action_msgs.msg import GoalInfo
        from action_msgs.srv import CancelGoal
        from geometry_msgs.msg import WrenchStamped
        from std_msgs.msg import Bool, String

        from rbd_control.ros.transports import without_shared_memory

        self.orders: list[str] = []
        self._flag: bool | None = None
        self._context, self._rclpy = rclpy.Context(), rclpy
        with without_shared_memory():
            rclpy.init(context=self._context, domain_id=domain)
            self._node = rclpy.create_node("stand_in", context=self._context)
        self._executor = rclpy.executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._wrench = self._node.create_publisher(
            WrenchStamped, "simulated_arm/external_wrench", 1
        )
        self._push = WrenchStamped()
        self._push.header.frame_id = "tool"
        self._push.wrench.force.y = 20.0

        def cancel(_request: Any, response: Any) -> Any:
            self.orders.append("cancel")
            response.goals_canceling = [GoalInfo()]
            return response

        action = "joint_trajectory_controller/follow_joint_trajectory"
        self._node.create_service(CancelGoal, f"{action}/_action/cancel_goal", cancel)
        self._node.create_subscription(
            String, "trajectory_execution_event", lambda m: self.orders.append(m.data), 10
        )

        self._node.create_subscription(Bool, "contact_detector/contact", self._on_flag, 10)

    @property
    def is_ready(self) -> bool:
        """Whether the detector publishes verdicts."""
        return self._flag is not None

    def _on_flag(self, message: Any) -> None:
        self._flag = message.data

    def sees(self, name: str) -> bool:
        """Return whether a node is there."""
        return name in self._node.get_node_names()

    def spin(self, pushes: bool | None = None) -> None:
        """Wait for up to 0.1 s for a message; push the arm as an entry of :data:`PUSHED` says."""
        if pushes or (pushes is False and not self._flag):
            self._wrench.publish(self._push)
        self._executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        """Leave the ROS domain."""
        self._node.destroy_node()
        self._rclpy.shutdown(context=self._context)


@contextmanager
def nodes() -> Iterator[StandIn]:
    """Run the nodes until the context is left; yield the stand-in."""
    with tempfile.TemporaryDirectory(prefix="rbd_control_examples_") as name:
        folder = Path(name)
        with reserved_domain() as domain:
            variables = {
                "ROS_DOMAIN_ID": str(domain),
                "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
                "ROS_LOG_DIR": name,
            }
            with environment(variables), NodeProcesses(os.environ, folder) as processes:
                config = str(share_directory() / "config" / "demo.yaml")
                for node, more in NODES.items():
                    changes = [word for change in more for word in ("-p", change)]
                    processes.start(node, ["--ros-args", "--params-file", config, *changes])
                stand_in = StandIn(domain)
                try:
                    deadline = time.monotonic() + LONGEST
                    while not stand_in.is_ready:
                        stand_in.spin()
                        processes.check()
                        if time.monotonic() > deadline:
                            output = "\n".join(map(processes.tail, NODES))
                            raise RbdControlError(f"the detector gives no verdict:\n{output}")
                    yield stand_in
                    processes.check()
                finally:
                    stand_in.close()


def run(name: str, stand_in: StandIn | None = None) -> str:
    """Run an example; return what it prints, and the orders that the stand-in got from it.

    Raises:
        RbdControlError: if it fails; the message has its output.
    """
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    begin = math.inf
    try:
        while stand_in and process.poll() is None:
            if begin == math.inf and stand_in.sees(name):
                begin = time.monotonic() + CONNECTED
            stand_in.spin(PUSHED.get(name) if time.monotonic() > begin else None)
        output, _ = process.communicate(timeout=LONGEST)
    finally:
        process.kill()
    if process.returncode:
        raise RbdControlError(f"{name} ended with code {process.returncode}:\n{output}")
    if stand_in and stand_in.orders:
        end = time.monotonic() + CONNECTED
        while time.monotonic() < end:  # the last order may still wait
            stand_in.spin()
        output += f"orders: {', '.join(sorted(stand_in.orders))}\n"
        stand_in.orders.clear()
    return output


def outputs(chosen: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Run examples, those for ROS last; yield the name and the output of each."""
    for name in chosen:
        if not needs_ros(name):
            yield name, run(name)
    if any(map(needs_ros, chosen)):
        with nodes() as stand_in:
            for name in chosen:
                if needs_ros(name):
                    yield name, run(name, stand_in)


def main() -> int:
    """Run the named examples and print their output; the exit code is 1 if one fails."""
    try:
        for name, output in outputs(sys.argv[1:] or names()):
            print(f"\n{name}\n{output}", end="", flush=True)
    except RbdControlError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
