"""One run of the loop: start the processes, measure for some seconds, end the processes."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rclpy
from rclpy.signals import SignalHandlerOptions

from bench.loop.ear import Ear
from bench.loop.figures import Answers, Latency, answers, growth, latency, raised, stamped
from bench.loop.stages import StageTime, stage_times
from bench.loop.usage import processor_seconds, resident
from bench.loop.watching import VIEW, watched
from rbd_control.errors import RbdControlError
from rbd_control.ros.processes import NodeProcesses, reserved_domain
from rbd_control.ros.threads import take_priority
from rbd_control.ros.transports import without_shared_memory

ARM = "bench.loop.arm"
NODES = ("passivity_controller", "contact_detector")
CONTROLLER = NODES[0]


@dataclass(frozen=True)
class Arrangement:
    """The processes in which controller and detector run.

    Attributes:
        name: name in the tables.
        processes: module of each process.
        measures_stages: whether the process takes, as its first argument, a file for the times of
            its stages.
    """

    name: str
    processes: tuple[str, ...]
    measures_stages: bool = False


TWO = Arrangement("two processes", NODES)
ONE = Arrangement("one process", ("contact_aware_controller",))
STAGED = Arrangement("one process, stages measured", ("bench.loop.staged",), measures_stages=True)

STARTING = 120.0
SETTLING = 3.0
"""Time for which the loop must be closed before the measurement [s]; excludes start-up work."""

Show = Callable[[str], None]

Counts = Mapping[str, Mapping[str, str]]
"""Values of the nodes on ``/diagnostics``, by node and key."""


@dataclass(frozen=True)
class Usage:
    """Processor time and memory of one process during a run.

    ``core`` is the share of a core, ``megabytes`` the resident memory at the end, ``kilobytes`` the
    memory at the times ``seconds``.
    """

    core: float
    megabytes: float
    growth: float
    """Growth of memory in the second half of the run [kB/min]."""
    seconds: tuple[float, ...]
    kilobytes: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """Results of a run.

    ``rate`` is the wanted rate of joint states [1/s], ``duration`` the measured time [s].
    ``torque``, ``residual`` and ``flag`` are the latencies from the stamp of a joint state to the
    receipt of the torque, the residual and the rise of the contact flag.
    """

    rate: float
    duration: float
    achieved: float
    """Rate at which the arm sent joint states [1/s]."""
    one_hop: Answers
    """Latency of the joint states to this process, a lower bound for the nodes."""
    torque: Answers
    residual: Answers
    flag: Latency
    usage: dict[str, Usage]
    lost_on_the_way: dict[str, int]
    """Number of joint states that the middleware reported as lost, by node."""
    skipped: int
    """Number of joint states for which the controller computed no torque because a newer one had
    arrived; it answered the newer one."""
    fault: str
    """Reason for which the controller sent the safe torque at the end; empty if it did not."""
    priority: str = ""
    """The real-time priority of all processes, or why they had none."""
    arrangement: str = TWO.name
    """Name of the :class:`Arrangement`."""
    stages: tuple[StageTime, ...] = ()
    """Times of the stages, if the arrangement measures them."""
    is_watched: bool = False
    """Whether ``rbd-control view`` and a browser ran beside the nodes."""

    @property
    def setup(self) -> str:
        """Name of the arrangement, followed by ``, with view`` if the view ran beside the nodes."""
        return f"{self.arrangement}{', with view' if self.is_watched else ''}"


def measure(
    rate: float,
    duration: float,
    priority: int,
    show: Show,
    arrangement: Arrangement = TWO,
    *,
    view: bool = False,
) -> Loop:
    """Run arm, controller and detector, measure for some seconds, and return the results.

    The processes run in an unused ROS domain, with real-time priority if it is permitted.

    Args:
        rate: joint states per second.
        duration: time that is measured [s].
        priority: real-time priority of all processes; 0: no real-time priority.
        show: called with the progress as text.
        arrangement: the processes of controller and detector.
        view: run ``rbd-control view`` with a browser beside the nodes.

    Raises:
        RbdControlError: if a process ends, or if controller and detector do not answer the joint
            states within :data:`STARTING` seconds.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench_loop_")))
        domain = stack.enter_context(reserved_domain())
        os.environ.update(
            ROS_DOMAIN_ID=str(domain),
            ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
            ROS_LOG_DIR=str(folder),
        )
        processes = stack.enter_context(NodeProcesses(os.environ, folder))
        stages, stamps = folder / "stages.npy", folder / "stamps.npy"
        _start(processes, arrangement, priority, stages)
        driver = ["--rate", str(rate), "--priority", str(priority), "--out", str(stamps)]
        processes.start(ARM, driver)
        with without_shared_memory():
            rclpy.init(args=[], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
            stack.callback(rclpy.try_shutdown)
            ear = Ear()
        stack.callback(ear.destroy)
        show("starting; the first time takes a minute")
        _wait_until_closed(ear, processes, arrangement)
        names = [ARM, *arrangement.processes]
        if view:
            show("starting the view and a browser")
            stack.enter_context(
                watched(processes, lambda seconds: ear.listen(seconds, processes.check))
            )
            names.append(VIEW)
            ear.listen(SETTLING, processes.check)
            ear.forget()
        gc.collect()
        gc.freeze()
        refused = take_priority(priority) if priority else "not wanted"
        pids = {name: processes.pid(name) for name in names} | {"bench": os.getpid()}
        # A report contains the counts at the time of its publication.
        before = ear.counts_of_next_report(CONTROLLER)
        begin, end, usage = _watch(ear, pids, duration, processes.check, show)
        after = ear.counts_of_next_report(CONTROLLER)
        processes.stop()
        sent = np.load(stamps)
        sent = sent[(sent >= begin) & (sent < end)]
        loop = _summed_up(rate, (end - begin) / 1e9, ear, sent, usage, (before, after))
        return replace(
            loop,
            priority=f"none, {refused}" if refused else str(priority),
            arrangement=arrangement.name,
            stages=_stages(stages, sent.size) if arrangement.measures_stages else (),
            is_watched=view,
        )


def counted(counts: tuple[Counts, Counts], node: str, key: str) -> int:
    """Return the increase of a count of a node; zero if the node does not report it.

    Args:
        counts: the counts before and after.
        node: name of the node.
        key: key of the count on ``/diagnostics``.
    """
    before, after = (int(each.get(node, {}).get(key, 0)) for each in counts)
    return after - before


def _start(processes: NodeProcesses, arrangement: Arrangement, priority: int, stages: Path) -> None:
    """Start controller and detector; ``stages`` is the file for the times of the stages."""
    config = Path(__file__).with_name("nodes.yaml")
    own = ["--params-file", str(config), "-p", f"thread_priority:={priority}"]
    first = [str(stages)] if arrangement.measures_stages else []
    for module in arrangement.processes:
        processes.start(module, [*first, "--ros-args", *own])


def _wait_until_closed(ear: Ear, processes: NodeProcesses, arrangement: Arrangement) -> None:
    """Listen until the nodes answer.

    Raises:
        RbdControlError: if a process ends or the loop does not close.
    """
    deadline = time.monotonic() + STARTING
    while not ear.is_loop_closed:
        ear.forget()
        ear.listen(SETTLING, processes.check)
        if time.monotonic() > deadline:
            tails = [f"--- {name}\n{processes.tail(name)}" for name in arrangement.processes]
            lines = "\n".join(tails)
            raise RbdControlError(f"the loop was not closed in {STARTING:g} s\n{lines}")


def _stages(path: Path, count: int) -> tuple[StageTime, ...]:
    """Return the times of the stages for the last ``count`` joint states in a file."""
    times = np.load(path)[-count:]
    return tuple(stage_times(times)) if len(times) else ()


def _watch(
    ear: Ear, pids: dict[str, int], duration: float, check: Callable[[], None], show: Show
) -> tuple[int, int, dict[str, Usage]]:
    """Receive messages, and check the processes once a second."""
    begin = time.time_ns()
    before = {name: processor_seconds(pid) for name, pid in pids.items()}
    seconds: list[float] = []
    kilobytes: dict[str, list[int]] = {name: [] for name in pids}
    while (passed := (time.time_ns() - begin) / 1e9) < duration:
        show(f"measuring, {duration - passed:.0f} s to go")
        ear.listen(min(1.0, duration - passed), check)
        seconds.append((time.time_ns() - begin) / 1e9)
        for name, pid in pids.items():
            kilobytes[name].append(resident(pid))
    end = time.time_ns()
    after = {name: processor_seconds(pid) for name, pid in pids.items()}
    usage = {
        name: Usage(
            core=(after[name] - before[name]) / (1e-9 * (end - begin)),
            megabytes=kilobytes[name][-1] / 1024.0,
            growth=growth(seconds, kilobytes[name]),
            seconds=tuple(seconds),
            kilobytes=tuple(kilobytes[name]),
        )
        for name in pids
    }
    return begin, end, usage


def _summed_up(
    rate: float,
    duration: float,
    ear: Ear,
    sent: np.ndarray,
    usage: dict[str, Usage],
    counts: tuple[Counts, Counts],
) -> Loop:
    """Return the results of a run; ``counts`` are the counts of the nodes before and after it."""
    stamps = [int(stamp) for stamp in sent]
    begin, end = stamps[0], stamps[-1]
    flags = raised(ear.flags(), ear.detected())
    return Loop(
        rate=rate,
        duration=duration,
        achieved=len(stamps) / duration,
        one_hop=answers(stamps, ear.states(), 1.0 / rate),
        torque=answers(stamps, stamped(ear.commands(), ear.errors()), 1.0 / rate),
        residual=answers(stamps, ear.torques(), 1.0 / rate),
        flag=latency([1e-6 * (at - stamp) for stamp, at in flags if begin <= stamp <= end]),
        usage={name.removeprefix("bench.loop."): used for name, used in usage.items()},
        lost_on_the_way={node: counted(counts, node, "lost on the way") for node in NODES},
        skipped=counted(counts, CONTROLLER, "skipped for a newer one"),
        fault=ear.faults.get("passivity_controller", ""),
    )
