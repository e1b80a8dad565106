"""``rbd-control demo``: runs the nodes over DDS, pushes the arm, and prints the result.

The demo uses a ROS domain of its own, independent of ROS_DOMAIN_ID, and communicates only on this
machine, because its torques must not reach another robot.
"""

from __future__ import annotations

import math
import os
import shlex
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.executors import Executor
from rclpy.qos import QoSProfile
from rclpy.task import Future
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.dynamics import Model, frame_placement
from rbd_control.errors import InputError, RbdControlError
from rbd_control.estimation import DetectorParameters
from rbd_control.files.output_files import prepare_output, write_json
from rbd_control.live.demo_report import (
    DemoLog,
    DemoResult,
    Series,
    demo_html,
    draw_demo,
    judge,
    print_demo,
    write_demo_html,
)
from rbd_control.live.requests import CommandNode
from rbd_control.node_parameters import law_parameters
from rbd_control.nodes.demo_scenario import SHORTEST, Scenario, ScenarioDriver
from rbd_control.parameters import read_parameter_file
from rbd_control.reports.console import console_for_output, program
from rbd_control.results import LONGEST
from rbd_control.ros.contact_messages import events_in
from rbd_control.ros.messages import to_seconds
from rbd_control.ros.processes import NodeProcesses, environment, reserved_domain
from rbd_control.ros.run import make_executor
from rbd_control.ros.transports import running_ros
from rbd_control.share import share_directory
from rbd_control.simulation import arm7_urdf
from rbd_control.startup.prompt_end import stop_requests
from rbd_control.view.page import Place
from rbd_control.wording import shortened

STARTING_NODES = (
    "starting the nodes; where no compiled code is stored, they compile for a minute or two"
)
"""Text that is shown as the activity until the nodes are ready."""

_COUNTS = ("samples", "valid samples")


class DemoObserver:
    """Records the topics of the three nodes, and sends the trajectory and pushes of the scenario.

    The nodes are the simulated arm, the controller and the detector. Call ``rclpy.init`` before the
    construction, :meth:`begin` to send the trajectory, and :meth:`spin` repeatedly to record and to
    send pushes, which are due by the stamps of the residuals.

    Args:
        scenario: motion and pushes.
        thresholds: contact thresholds of the detector, one for each joint or one for all [N·m].

    Attributes:
        log: the recorded data.
        ignored: number of messages and statuses ignored as invalid, or as a true force before the
            first joint state.
    """

    def __init__(self, scenario: Scenario, thresholds: tuple[float, ...]) -> None:
        self._model = Model.from_urdf(arm7_urdf())
        self._position: np.ndarray | None = None
        joints = self._model.joint_names
        limits = np.broadcast_to(np.array(thresholds), (len(joints),))
        self.log = DemoLog(joints, limits, scenario.contacts)
        self.ignored = 0
        self._begin: float | None = None
        self._verdicts = 0
        self._counted = (0, 0)
        self._node = CommandNode("demo", lambda text: self._node.get_logger().warning(text))
        self._executor: Executor = make_executor()
        self._executor.add_node(self._node)
        # No message may be lost, even if it is read late.
        many = QoSProfile(depth=5000)
        log, node = self.log, self._node
        for topic, series in (
            ("contact_detector/external_joint_torques", log.residual),
            ("simulated_arm/true_external_joint_torques", log.true_torque),
        ):
            node.create_subscription(JointState, topic, partial(self._on_torque, series), many)
        node.create_subscription(
            JointState, "passivity_controller/tracking_error", self._on_error, many
        )
        node.create_subscription(JointState, "joint_states", self._on_state, 10)
        node.create_subscription(
            WrenchStamped, "simulated_arm/true_external_wrench", self._on_true_force, many
        )
        node.create_subscription(DiagnosticArray, "contact_detector/events", self._on_event, many)
        node.create_subscription(Bool, "contact_detector/contact", self._on_verdict, 10)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        self._driver = ScenarioDriver(node, scenario, joints)

    @property
    def activity(self) -> str:
        """Text that names the present activity, for the user."""
        return self._driver.activity or STARTING_NODES

    @property
    def is_ready(self) -> bool:
        """Whether all three nodes have published, and trajectory and pushes have subscribers."""
        return bool(
            self._verdicts
            and self.log.tracking_error.last
            and self.log.true_torque.last
            and self._driver.is_heard
        )

    @property
    def time(self) -> float:
        """Stamp of the detector's last residual, by simulated time [s]; 0 before the first."""
        return self.log.residual.last or 0.0

    @property
    def elapsed(self) -> float:
        """Simulated time since the motion began [s]; 0 before."""
        return self._driver.elapsed(self.time)

    def spin(self, seconds: float) -> None:
        """Process messages for ``seconds`` [s], then send a push if it is due."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)
        self._driver.step(self.time)
        self._node.refusals.log()

    def begin(self) -> bool:
        """Send the trajectory, and begin to count the samples of the motion.

        Returns:
            Whether the middleware accepted the trajectory; if not, call this method again.
        """
        if not self._driver.begin(self.time):
            return False
        self.log.begin = self._begin = self.time
        return True

    def destroy_node(self) -> None:
        """Destroy the node ``demo``."""
        self._executor.remove_node(self._node)
        self._node.destroy_node()

    def _on_torque(self, series: Series, message: JointState) -> None:
        self._add(series, message, message.effort)

    def _on_error(self, message: JointState) -> None:
        self._add(self.log.tracking_error, message, message.position)

    def _add(self, series: Series, message: JointState, values: Sequence[float]) -> None:
        if len(values) == len(self.log.joints) and all(map(math.isfinite, values)):
            series.add(to_seconds(message.header.stamp), values)
        else:
            self.ignored += 1

    def _on_state(self, message: JointState) -> None:
        position = np.array(message.position)
        if position.shape == (self._model.nq,) and np.isfinite(position).all():
            self._position = position
        else:
            self.ignored += 1

    def _on_true_force(self, message: WrenchStamped) -> None:
        """Record the force in world axes, as in events; the message has axes of the link."""
        link, force = message.header.frame_id, message.wrench.force
        if self._position is None or link not in self._model.link_body:
            self.ignored += 1
            return
        rotation = frame_placement(self._model, self._position, link)[:3, :3]
        turned = rotation @ (force.x, force.y, force.z)
        self.log.true_forces.append((to_seconds(message.header.stamp), link, turned))

    def _on_event(self, message: DiagnosticArray) -> None:
        events, ignored = events_in(message)
        self.ignored += ignored
        for event in events:
            self.log.events[event.id] = event

    def _on_verdict(self, _message: Bool) -> None:
        self._verdicts += 1

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == "passivity_controller" and self._begin is not None:
                if any(item.key == "mode" and item.value == "safe" for item in status.values):
                    self.log.fault = self.log.fault or shortened(status.message, LONGEST)
            elif status.name == "contact_detector":
                values = {item.key: item.value for item in status.values if item.key in _COUNTS}
                counts = [values.get(key, "0") for key in _COUNTS]
                if all(count.isdecimal() and len(count) < 20 for count in counts):
                    self._count(*map(int, counts))
                else:
                    self.ignored += 1

    def _count(self, samples: int, valid: int) -> None:
        """Update the fraction of valid samples since the last report before the motion."""
        if self._begin is None:
            self._counted = (samples, valid)
        elif samples > self._counted[0]:
            of, good = samples - self._counted[0], valid - self._counted[1]
            self.log.valid_fraction = good / of


PORTS = range(8080, 8100)
"""Candidate ports of the page; the first free port is used."""


def ros_variables(domain: int) -> dict[str, str]:
    """Return the environment variables of a ROS domain that stays on this machine."""
    return {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}


def watching_line(domain: int) -> str:
    """Return text with the commands that show the demo from another terminal."""
    words = [f"{name}={value}" for name, value in ros_variables(domain).items()]
    shown = [shlex.join([*words, *program(), name]) for name in ("monitor", "view")]
    without = "" if has_view() else " (view needs the extra 'view')"
    return f"watch it live, from another terminal{without}:\n  {shown[0]}\n  {shown[1]}"


def has_view() -> bool:
    """Return whether the libraries of ``rbd-control view`` are installed."""
    return find_spec("viser") is not None and find_spec("yourdfpy") is not None


def free_port() -> int:
    """Return the first of :data:`PORTS` that is free on this machine.

    Raises:
        InputError: if all of them are in use.
    """
    for port in PORTS[:-1]:
        with suppress(InputError):
            Place(port=port).refuse()
            return port
    Place(port=PORTS[-1]).refuse()
    return PORTS[-1]


@contextmanager
def demo_view(domain: int, console: Console, *, start: bool) -> Iterator[Callable[[], None]]:
    """Print the command that shows the demo or, with ``start``, serve the page for the browser.

    Args:
        domain: ROS domain of the demo.
        console: prints the command, or the address of the page.
        start: whether to start ``rbd-control view`` as a process, which ends with the context.

    Yields:
        A function that keeps the page open until SIGINT or SIGTERM; without ``start`` it returns at
        once. It raises an :class:`RbdControlError` if the process of the page has ended.

    Raises:
        RbdControlError: if the libraries of the view are not installed, all :data:`PORTS` are in
            use, or the page does not start.
    """
    if not start:
        console.print(watching_line(domain), markup=False, soft_wrap=True)
        yield lambda: None
        return
    if not has_view():
        raise RbdControlError(
            "the view is not installed: pip install '.[view]' in a clone of rbd_control"
        )
    with tempfile.TemporaryDirectory(prefix="rbd_control_view_") as folder:
        variables = {**os.environ, **ros_variables(domain), "ROS_LOG_DIR": folder}
        with NodeProcesses(variables, Path(folder)) as processes:
            port = free_port()
            arguments = ["view", "--urdf", "arm7", "--port", str(port)]
            processes.start("rbd_control.cli.main", arguments, "view")
            _wait_for_page(port, processes)
            console.print(f"watch it in the browser: http://127.0.0.1:{port}", markup=False)

            def wait_for_end() -> None:
                console.print("the page stays open; Ctrl-C ends it")
                with stop_requests() as stopped:
                    while not stopped():
                        processes.check()
                        time.sleep(0.1)

            yield wait_for_end


def _wait_for_page(port: int, processes: NodeProcesses) -> None:
    """Wait until the page listens: it then receives the first residual, from which times count."""
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        processes.check()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise RbdControlError(f"the page was not ready in {STARTING:g} s")


NODES = ("simulated_arm", "passivity_controller", "contact_detector")

STARTING = 180.0
"""Longest time without progress of simulated time until the nodes are ready [s].

The first start includes compilation.
"""

LEAD, TAIL = 1.0, 1.0
"""Time at rest before and after the motion [s]."""

STALLED = 20.0
"""Time without progress of simulated time after which the demo fails [s]."""

DURATION = 20.0
"""Default length of the motion [s]."""

Show = Callable[[str, float], None]


def run_demo(
    duration: float | None = None,
    report: str | Path | None = None,
    json_path: str | Path | None = None,
    view: bool = False,
    html_path: str | Path | None = None,
) -> int:
    """Run the demo, print the result, and write the requested files.

    Args:
        duration: length of the motion [s]; None means :data:`DURATION`. A shorter motion than
            :data:`SHORTEST` is replaced by a motion of this length.
        report: folder for ``demo.png``, ``demo.html`` and ``demo.json``, which is created if
            necessary; or None.
        json_path: file for the outcome as JSON, created with its folder if necessary; or None.
        view: show the demo in the browser; the page stays until SIGINT or SIGTERM comes.
        html_path: file for the report as HTML, or None.

    Returns:
        The exit code: 0 if the demo has passed, see :func:`~rbd_control.live.demo_report.judge`; 1
        otherwise. If a node does not start, stops or makes no progress, the code is 1 as well; the
        reason is printed and no file is written.

    Raises:
        RbdControlError: if a library for ``view`` or ``html_path`` is not installed, if the page
            cannot be opened or its process ends, or if no ROS domain is free.
        OSError: naming a file that cannot be written; before the demo runs, as far as it is known.
        KeyboardInterrupt: on SIGINT and SIGTERM during the run, after all nodes are stopped.
    """
    console = console_for_output()
    for path in _outputs(report, json_path):
        prepare_output(path)
    html = demo_html(html_path, report)
    scenario = Scenario(max(DURATION if duration is None else duration, SHORTEST))
    if duration is not None and duration < SHORTEST:
        console.print(
            f"{duration:g} s is too short for the contacts; the motion lasts {SHORTEST:g} s"
        )
    with reserved_domain() as domain, demo_view(domain, console, start=view) as wait_for_end:
        try:
            result = judge(_record(scenario, domain))
        except RbdControlError as error:
            console.print(f"failed: {error}", markup=False)
            return 1
        print_demo(result, console)
        _write(result, report, json_path, console)
        write_demo_html(result, html, console)
        wait_for_end()
    return 1 if result.failures else 0


def _outputs(report: str | Path | None, json_path: str | Path | None) -> list[Path]:
    """Return the JSON files that the demo writes."""
    paths = [Path(json_path)] if json_path else []
    return [*paths, Path(report) / "demo.json"] if report else paths


def _write(
    result: DemoResult,
    report: str | Path | None,
    json_path: str | Path | None,
    console: Console,
) -> None:
    if report:
        draw_demo(result, Path(report) / "demo.png")
        console.print(f"picture in {Path(report) / 'demo.png'}", markup=False)
    else:
        console.print("--report DIR draws a picture of it")
    for path in _outputs(report, json_path):
        write_json(result.to_json(), path)
    if json_path:
        console.print(f"JSON in {json_path}", markup=False)


def _record(scenario: Scenario, domain: int) -> DemoLog:
    """Start the nodes, run the scenario, and end the nodes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rbd_control_demo_")))
        stopped = stack.enter_context(stop_requests())  # ending the nodes takes seconds
        show = stack.enter_context(_progress(scenario.duration))
        # rclpy logs into the home directory, which may not exist.
        variables = {**ros_variables(domain), "ROS_LOG_DIR": str(folder)}
        stack.enter_context(environment(variables))
        config = share_directory() / "config" / "demo.yaml"
        processes = stack.enter_context(NodeProcesses(os.environ, folder))
        show(STARTING_NODES, 0.0)
        for node in NODES:
            processes.start(node, ["--ros-args", "--params-file", str(config)])
        thresholds = _thresholds(config)
        observer = stack.enter_context(
            running_ros(lambda: DemoObserver(scenario, thresholds), domain)
        )

        def wait(done: Callable[[], bool], patience: float, what: str) -> None:
            """Spin until ``done``; ``patience`` [s] counts from the last step of simulated time."""
            deadline, seen = time.monotonic() + patience, observer.time
            while not done():
                observer.spin(0.05)
                processes.check()
                if stopped():
                    raise KeyboardInterrupt
                if observer.time != seen:
                    deadline, seen = time.monotonic() + patience, observer.time
                if time.monotonic() > deadline:
                    tails = "\n".join(f"--- {node}\n{processes.tail(node)}" for node in NODES)
                    raise RbdControlError(f"{what}\n{tails}")
                show(observer.activity, observer.elapsed)

        wait(lambda: observer.is_ready, STARTING, f"the nodes were not ready in {STARTING:g} s")
        stalled = f"simulated time did not advance for {STALLED:g} s"
        begin = observer.time + LEAD
        wait(lambda: observer.time > begin, STALLED, stalled)
        wait(observer.begin, STALLED, f"the trajectory could not be sent for {STALLED:g} s")
        wait(lambda: observer.elapsed > scenario.duration + TAIL, STALLED, stalled)
        return observer.log


def _thresholds(config: Path) -> tuple[float, ...]:
    parameters = law_parameters(DetectorParameters, read_parameter_file(config, "contact_detector"))
    return parameters.contact_threshold


@contextmanager
def _progress(duration: float) -> Iterator[Show]:
    """Yield a progress display: a bar on a terminal, else a line at each change."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        told: list[str] = []

        def tell(what: str, _elapsed: float) -> None:
            if told[-1:] != [what]:
                told.append(what)
                console.print(what, markup=False, soft_wrap=True)

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=duration + TAIL)
        yield lambda what, elapsed: bar.update(task, description=what, completed=elapsed)
