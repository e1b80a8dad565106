"""``rbd-control demo``: arm, controller and detector as processes that communicate over DDS.

The demo uses a ROS domain of its own, independent of ROS_DOMAIN_ID, and communicates only on this
machine, because its torques must not reach another robot.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import rclpy
from rclpy.signals import SignalHandlerOptions
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rbd_control.errors import RbdControlError
from rbd_control.estimation import DetectorParameters
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.node_parameters import law_parameters
from rbd_control.nodes.demo.html_report import demo_html, write_demo_html
from rbd_control.nodes.demo.observer import STARTING_NODES, DemoObserver
from rbd_control.nodes.demo.report import draw_demo, print_demo
from rbd_control.nodes.demo.result import DemoLog, DemoResult, judge
from rbd_control.nodes.demo.scenario import SHORTEST, Scenario
from rbd_control.nodes.demo.watching import demo_view, ros_variables
from rbd_control.nodes.processes import NodeProcesses, environment, reserved_domain
from rbd_control.nodes.transports import without_shared_memory
from rbd_control.parameters import read_parameter_file
from rbd_control.share import share_directory
from rbd_control.startup.stop_requests import stop_requests

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
        The exit code: 0 if the demo has passed, see :func:`~rbd_control.nodes.demo.result.judge`; 1
        otherwise. If a node does not start, stops or makes no progress, the code is 1 as well; the
        reason is printed and no file is written.

    Raises:
        RbdControlError: if a library for ``view`` or ``html_path`` is not installed, if the page
            cannot be opened or its process ends, or if no ROS domain is free.
        OSError: naming a file that cannot be written; before the demo runs, as far as it is known.
        KeyboardInterrupt: on SIGINT and SIGTERM during the run, after all nodes are stopped.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
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
    text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    if report:
        draw_demo(result, Path(report) / "demo.png")
        console.print(f"picture in {Path(report) / 'demo.png'}", markup=False)
    else:
        console.print("--report DIR draws a picture of it")
    for path in _outputs(report, json_path):
        write_whole(path, text.encode("utf-8"))
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
        with without_shared_memory():
            rclpy.init(args=[], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
            stack.callback(rclpy.try_shutdown)
            observer = DemoObserver(scenario, _thresholds(config))
        stack.callback(observer.destroy)

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
