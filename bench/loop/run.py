"""One run of the loop: processes up, some seconds measured, processes down."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import rclpy
from rclpy.signals import SignalHandlerOptions

from bench.loop.ear import Ear
from bench.loop.figures import Answers, Latency, answers, growth, latency, raised, stamped
from bench.loop.usage import processor_seconds, resident
from bench.loop.watching import VIEW, watched
from rbd_control.errors import RbdControlError
from rbd_control.nodes.priority import take_priority
from rbd_control.nodes.processes import NodeProcesses, reserved_domain

ARM = "bench.loop.arm"
NODES = ("passivity_controller", "contact_detector")
STARTING = 120.0
SETTLING = 3.0
"""So long the loop must have been closed [s]: what nodes do at their start does not count."""

Show = Callable[[str], None]


@dataclass(frozen=True)
class Usage:
    """What a process took: share of one core, memory at the end and growth in the second half."""

    core: float
    megabytes: float
    growth: float
    """[kB/min]"""
    seconds: tuple[float, ...]
    kilobytes: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """What a run showed."""

    rate: float
    duration: float
    achieved: float
    """Joint states a second that the arm really sent."""
    one_hop: Answers
    """Joint states to this bench itself: what no node can be faster than."""
    torque: Answers
    residual: Answers
    flag: Latency
    usage: dict[str, Usage]
    lost_on_the_way: dict[str, int]
    """Joint states that the middleware told each node it had not delivered."""
    fault: str
    """Why the controller sent the safe torque in the end; empty when it did not."""
    priority: str = ""
    """The real-time priority of all processes, or why they had none."""
    is_watched: bool = False
    """Whether ``rbd-control view`` and a browser ran beside the nodes."""

    @property
    def label(self) -> str:
        """Return the rate reached, and whether the view ran beside the nodes."""
        return f"{self.achieved:.0f}{', view' if self.is_watched else ''}"


def measure(rate: float, duration: float, priority: int, show: Show, *, view: bool = False) -> Loop:
    """Run arm, controller and detector for some seconds, with real-time priority if permitted.

    Args:
        rate: joint states per second.
        duration: time that is measured [s].
        priority: real-time priority of all processes; 0 for none.
        show: shows the progress.
        view: run ``rbd-control view`` with a browser beside the nodes.

    Raises:
        RbdControlError: when a process ends, or the loop does not close.
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
        config = Path(__file__).with_name("nodes.yaml")
        for node in NODES:
            own = ["--params-file", str(config), "-p", f"thread_priority:={priority}"]
            processes.start(node, ["--ros-args", *own])
        stamps = folder / "stamps.npy"
        driver = ["--rate", str(rate), "--priority", str(priority), "--out", str(stamps)]
        processes.start(ARM, driver)
        rclpy.init(args=[], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        stack.callback(rclpy.try_shutdown)
        ear = Ear()
        stack.callback(ear.destroy)
        show("starting; the first time takes a minute")
        deadline = time.monotonic() + STARTING
        while not ear.is_loop_closed:
            ear.forget()
            ear.listen(SETTLING, processes.check)
            if time.monotonic() > deadline:
                tails = "\n".join(f"--- {node}\n{processes.tail(node)}" for node in NODES)
                raise RbdControlError(f"the loop was not closed in {STARTING:g} s\n{tails}")
        names = [ARM, *NODES]
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
        begin, end, usage = _watch(ear, pids, duration, processes.check, show)
        ear.listen(1.0)  # what is still on its way
        counted = dict(ear.counted)
        processes.stop()
        sent = np.load(stamps)
        sent = sent[(sent >= begin) & (sent < end)]
        loop = _summed_up(rate, (end - begin) / 1e9, ear, sent, usage, counted)
        said = f"none, {refused}" if refused else str(priority)
        return replace(loop, priority=said, is_watched=view)


def _watch(
    ear: Ear, pids: dict[str, int], duration: float, check: Callable[[], None], show: Show
) -> tuple[int, int, dict[str, Usage]]:
    """Listen and look at the processes once a second."""
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
    counted: dict[str, dict[str, str]],
) -> Loop:
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
        lost_on_the_way={
            node: int(counted.get(node, {}).get("lost on the way", 0)) for node in NODES
        },
        fault=ear.faults.get("passivity_controller", ""),
    )
