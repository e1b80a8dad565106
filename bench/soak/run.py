"""One soak: start of the nodes, execution and observation of the schedule, end of the nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from bench.fuzz.recordings import motion, write_bag
from bench.loop.usage import processor_seconds
from bench.rig import NodeSpec, Rig, signature, traces_in
from bench.soak.conductor import FOREIGN, Conductor
from bench.soak.ear import ARM, CONTROLLER, DETECTOR, FORCES, LOST, PLAYER, TORQUES, Ear
from bench.soak.figures import Event, growth, matched, overlaps
from bench.soak.pauses import Pauses, longest_pause, time_paused
from bench.soak.schedule import PUSH, make_schedule
from bench.soak.verdict import (
    SETTLING,
    Line,
    contact_lines,
    gap_line,
    growth_line,
    samples_line,
)
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError
from rbd_control.estimation import DetectorParameters
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.ros.threads import take_priority
from rbd_control.ros.transports import without_shared_memory
from rbd_control.simulation import arm7_urdf

CONFIG = Path(__file__).with_name("nodes.yaml")

TIMEOUT = 0.05
"""The controller's timeout, its default [s]."""

STARTING = 180.0
"""Longest time for the start of the nodes, which compile at the first start [s]."""

MEMORY_EVERY = 10.0
"""Period at which memory is read [s]; a sixtieth of the duration in shorter runs."""

WAITED = 0.5
"""Fraction of a gap from which the machine caused the gap.

It is the fraction in which the nodes waited for a processor, or in which a processor paused.
"""

PAUSE = 0.003
"""Polling period of messages, schedule and processes [s]."""

BACKLOG, LAST = 2.0, 3.0
"""Time in which messages are received before the soak begins, and after its end [s]."""

NODES = (ARM, CONTROLLER, DETECTOR, PLAYER)

Show = Callable[[str], None]


@dataclass
class Process:
    """Processor time and memory of one node.

    Attributes:
        lives: for each process of the node, the successive values of time [s] and resident memory
            [kB]; a restart begins a new process.
        cores: mean share of a core of the last process.
        starts: number of processes of the node.
    """

    lives: list[list[tuple[float, int]]] = field(default_factory=list)
    cores: float = 0.0
    starts: int = 0


@dataclass
class Soak:
    """Results of a soak; times are from its start.

    Attributes:
        seed: seed of the schedule.
        seconds: duration [s].
        priority: real-time priority of the nodes, or ``none``.
        lines: the lines of the verdict, one per requirement.
        processes: processor time and memory by node.
        items, skipped: number of executed and of skipped items by kind.
        contacts: start of each true contact [s], and whether it was detected.
        delays: delays of detection [s].
        false: times of events without contact [s].
        gaps: torque gaps over the timeout: end [s], length [s], whether a fault excused it. Gaps in
            which torques were lost on the way to the soak are left out.
        begun: start time [s] and kind of each item.
        unanswered: times of samples without answer outside of faults, by node [s].
        reports: last diagnostic values of each node.
        figures: further numbers by description.
        failures: descriptions of other failures, which have no line in the verdict.
        traced: growth of Python's memory as text, by node; empty without ``--trace``.
    """

    seed: int
    seconds: float
    priority: str
    lines: list[Line] = field(default_factory=list)
    processes: dict[str, Process] = field(default_factory=dict)
    items: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    contacts: list[tuple[float, bool]] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    false: list[float] = field(default_factory=list)
    gaps: list[tuple[float, float, bool]] = field(default_factory=list)
    begun: list[tuple[float, str]] = field(default_factory=list)
    unanswered: dict[str, list[float]] = field(default_factory=dict)
    reports: dict[str, dict[str, str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    traced: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing failed and no requirement was missed."""
        return not self.failures and not any(line.missed for line in self.lines)


class _Watch:
    """Monitors the processes: memory, processor time, waiting time, output."""

    def __init__(self, rig: Rig, pauses: Pauses, begin: float, every: float, soak: Soak) -> None:
        self._rig, self._pauses = rig, pauses
        self._begin, self._every, self._soak = begin, every, soak
        self._due = begin
        self._pids: dict[str, int] = {}
        self._used: dict[int, tuple[float, float]] = {}
        self._waits: list[tuple[int, float]] = []
        """Time, and total waiting time of controller and arm for a processor until then [s]."""
        self._waits_due = begin
        for name in rig.names:
            soak.processes[name] = Process()

    def look(self) -> None:
        """Take the measurements that are due."""
        now = time.monotonic()
        if now >= self._waits_due:
            self._waits_due = now + 0.1
            waited = self._rig.waited(CONTROLLER) + self._rig.waited(ARM)
            self._waits = [*self._waits[-100:], (time.time_ns(), waited)]
        if now < self._due:
            return
        self._due += self._every
        for name, process in self._soak.processes.items():
            self._judge_process(name)
            if self._rig.exit_code(name) is not None:
                continue
            pid = self._rig.pid(name)
            if self._pids.get(name) != pid:
                self._pids[name] = pid
                process.lives.append([])
                process.starts += 1
            used = self._rig.resident(name)
            if used:
                process.lives[-1].append((now - self._begin, used))
            with suppress(OSError, IndexError):
                seconds = processor_seconds(pid)
                self._used[pid] = (self._used.get(pid, (seconds, 0.0))[0], seconds)
                process.cores = self._cores(name)

    def is_of_the_machine(self, end: int, gap: float) -> bool:
        """Return whether controller and arm could not run for most of a gap.

        They waited for a processor, or a processor paused. The controller answers joint states, so
        it sends no torque while the arm is silent.

        Args:
            end: end of the gap [ns].
            gap: its length [s].
        """
        begin = end - round(gap * 1e9)
        if time_paused(self._pauses.of_processors(), begin, end) > WAITED * gap:
            return True
        before = [wait for at, wait in self._waits if at <= begin]
        after = [wait for at, wait in self._waits if at >= end]
        if not before or not after:
            return False
        return after[0] - before[-1] > WAITED * gap

    def _judge_process(self, name: str) -> None:
        output = self._rig.output(name)
        for trace in traces_in(output):
            self._soak.failures.append(f"{name}: traceback: {signature(trace)}")
        code = self._rig.exit_code(name)
        if code is not None:
            self._soak.failures.append(f"{name} ended with code {code}: {output[-300:]}")
            self._rig.start(name)

    def _cores(self, name: str) -> float:
        first, last = self._used[self._pids[name]]
        life = self._soak.processes[name].lives[-1]
        span = life[-1][0] - life[0][0] if len(life) > 1 else 0.0
        return (last - first) / span if span else 0.0


def soak(seed: int, minutes: float, priority: int, trace: bool, show: Show) -> Soak:
    """Start the nodes, execute a schedule, end the nodes, and return the results.

    SIGINT ends the soak early; the results until then are returned.

    Args:
        seed: seed of the schedule.
        minutes: duration [min].
        priority: real-time priority of the nodes, if permitted; 0: no real-time priority.
        trace: whether the nodes trace Python's memory allocations, which makes them slower.
        show: called with the progress as text.

    Raises:
        RbdControlError: if a node ends during the start, or if the nodes do not work normally
            within :data:`STARTING` seconds.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="soak_")))
        rig = Rig(_specs(folder, priority, trace), CONFIG, folder)
        stack.callback(rig.stop)
        with without_shared_memory():
            rclpy.init(
                args=[], domain_id=rig.domain, signal_handler_options=SignalHandlerOptions.NO
            )
            stack.callback(rclpy.try_shutdown)
            listening, giving = Node("soak_ear"), Node("soak_conductor")
        stack.callback(listening.destroy_node)
        stack.callback(giving.destroy_node)
        model = Model.from_urdf(arm7_urdf())
        parameters = law_parameters(DetectorParameters, read_parameter_file(CONFIG, f"/{DETECTOR}"))
        thresholds = parameters.for_joints("contact_threshold", model.nv)
        ear = Ear(listening, TIMEOUT, list(model.effort_limit), FOREIGN)
        conductor = Conductor(giving, ear, rig, model, thresholds)
        pauses = Pauses(folder)
        stack.callback(pauses.stop)
        rig.start_all()
        show("starting the nodes; the first time they compile, which takes a minute")
        _wait_until_free(conductor, ear, rig)
        # Below the nodes it would not run where they need all processors, and miss what they send.
        if priority:
            stack.callback(take_priority, 0)
            take_priority(priority)
        # What has waited until now takes the processor from the nodes.
        _listen(conductor, ear, BACKLOG)
        # Statistics from the start of the nodes, and of what observes them, do not count.
        ear.restart()
        conductor.failures.clear()
        result = Soak(seed, 60.0 * minutes, str(priority or "none"))
        _carry_out(result, conductor, ear, rig, pauses, show)
        if trace:
            result.traced = {name: rig.last_lines(name, "traced: ") for name in rig.names}
        return result


def _specs(folder: Path, priority: int, trace: bool) -> list[NodeSpec]:
    recording = write_bag(folder / "played", "mcap", motion(20.0, 1000.0))
    modules = {
        ARM: "bench.soak.arm",
        CONTROLLER: "passivity_controller",
        DETECTOR: "contact_detector",
        PLAYER: "joint_state_player",
    }
    specs = []
    for name, module in modules.items():
        arguments = ["-p", f"thread_priority:={priority}"]
        if name == PLAYER:
            arguments += ["-p", f"recording:={recording}"]
        if trace:
            full = module if "." in module else f"rbd_control.nodes.{module}"
            arguments += ["--", f"--traced={full}"]
            module = "bench.soak.traced"
        specs.append(NodeSpec(module, name, arguments))
    return specs


def _wait_until_free(conductor: Conductor, ear: Ear, rig: Rig) -> None:
    deadline = time.monotonic() + STARTING
    while not conductor.is_free or not ear.played.heard:
        ear.listen()
        conductor.step()
        time.sleep(PAUSE)
        ended = [name for name in rig.names if rig.exit_code(name) is not None]
        if ended or time.monotonic() > deadline:
            tails = "\n".join(f"--- {name}\n{rig.output(name)[-1500:]}" for name in rig.names)
            raise RbdControlError(f"the nodes did not work in {STARTING:g} s\n{tails}")


def _carry_out(
    result: Soak, conductor: Conductor, ear: Ear, rig: Rig, pauses: Pauses, show: Show
) -> None:
    begin, wall = time.monotonic(), time.time_ns()
    every = min(MEMORY_EVERY, result.seconds / 60.0)
    watch = _Watch(rig, pauses, begin, every, result)
    items = make_schedule(result.seed, result.seconds)
    at_first = {name: ear.told[name].total(LOST) for name in (CONTROLLER, DETECTOR)}
    by_machine, judged = 0, 0
    shown = -1
    with suppress(KeyboardInterrupt):  # the results until then are kept
        while (passed := time.monotonic() - begin) < result.seconds:
            ear.listen()
            conductor.step()
            watch.look()
            for gap in ear.torque_gaps.over[judged:]:
                # Wait until the waiting time after the gap has been measured.
                if time.time_ns() - gap.end < 1_000_000_000:
                    break
                is_judged = not gap.excused and not gap.unheard
                by_machine += is_judged and watch.is_of_the_machine(gap.end, gap.length)
                judged += 1
            if items and passed >= items[0].at and conductor.is_free:
                result.begun.append((passed, items[0].kind))
                conductor.begin(items.pop(0))
            if int(passed) != shown:
                shown = int(passed)
                left = result.seconds - passed
                show(f"{left:.0f} s to go; {conductor.done.total()} items; {conductor.doing}")
            time.sleep(PAUSE)
    result.seconds = time.monotonic() - begin
    # Receive messages that are still in transit, and the last counts of the nodes.
    _listen(conductor, ear, LAST)
    _sum_up(result, conductor, ear, at_first, by_machine, wall)
    if pauses.watches:
        found = pauses.of_processors()
        result.figures["pauses of a processor"] = float(sum(map(len, found)))
        result.figures["longest pause of a processor [ms]"] = 1e3 * longest_pause(found)


def _listen(conductor: Conductor, ear: Ear, seconds: float) -> None:
    """Receive messages for some time [s]."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ear.listen()
        conductor.step()
        time.sleep(PAUSE)
    ear.contacts.finish()
    ear.external.finish()


def _false_text(event: Event, wall: int, begun: list[tuple[float, str]]) -> str:
    """Return the text of a false event, with the item before it; ``wall`` is the begin [ns]."""
    seconds = 1e-9 * (event.sent - wall)
    before = [item for item in begun if item[0] <= seconds]
    after = f", {seconds - before[-1][0]:.2f} s after {before[-1][1]}" if before else ""
    return f"{event.text} at {seconds:.2f} s{after}"


def _sum_up(
    result: Soak,
    conductor: Conductor,
    ear: Ear,
    at_first: dict[str, int],
    by_machine: int,
    wall: int,
) -> None:
    pushes = ear.contacts.intervals
    impacts = [each for each in ear.external.intervals if not overlaps(each, pushes)]
    match = matched(pushes, tuple(ear.detected), impacts)
    gaps, restarts = ear.torque_gaps, conductor.restarts
    over = [gap for gap in gaps.over if not gap.excused]
    unheard = sum(gap.unheard for gap in over)
    result.items, result.skipped = dict(conductor.done), dict(conductor.skipped)
    result.delays = list(match.delays)
    false = [ear.detected[at] for at in match.false]
    result.false = [1e-9 * (event.sent - wall) for event in false]
    missed, sent = set(match.missed), ear.contacts.sent
    result.contacts = [(1e-9 * (sent[c[0]] - wall), c not in missed) for c in pushes]
    result.gaps = [
        (1e-9 * (gap.end - wall), gap.length, gap.excused) for gap in gaps.over if not gap.unheard
    ]
    result.failures += conductor.failures
    result.failures += [f"over the limit: {text}" for text in ear.violations]
    grown = {name: growth(process.lives, SETTLING) for name, process in result.processes.items()}
    result.lines = [growth_line(name, each) for name, each in grown.items()]
    for name, unanswered in ear.answered.items():
        told = ear.told[name].total(LOST) - at_first[name]
        result.unanswered[name] = [1e-9 * (at - wall) for at in unanswered.times]
        reasons = ear.told[name].near(unanswered.times)
        result.lines.append(samples_line(name, unanswered, told, ear.unheard[name].count, reasons))
    result.lines.append(Line("player: messages not played", float(ear.played.left_out), 0.0))
    result.lines.append(gap_line(gaps.largest, len(over) - unheard, by_machine, unheard, TIMEOUT))
    texts = [_false_text(event, wall, result.begun) for event in false]
    result.lines += contact_lines(match, conductor.done[PUSH], texts)
    result.lines.append(Line("torques over the limit", float(len(ear.violations)), 0.0))
    result.lines.append(Line("faults not recovered from", float(len(conductor.failures)), 0.0))
    result.reports = {name: values for name, (_, _, values) in ear.reports.items()}
    result.figures = {
        "torques": float(ear.torques),
        "joint states": float(ear.answered[CONTROLLER].sent),
        "samples without answer during faults": float(
            sum(each.excused for each in ear.answered.values())
        ),
        "largest torque, share of its limit": ear.largest,
        "largest gap between joint states [ms]": 1e3 * ear.state_gaps.largest,
        "largest gap between played states [ms]": 1e3 * ear.play_gaps.largest,
        "played states": float(ear.played.heard),
        "played states lost by the middleware": float(ear.played.unheard),
        "torques lost on the way to the soak": float(ear.unheard[TORQUES].count),
        "forces lost on the way to the soak": float(ear.unheard[FORCES].count),
        "least torque of a push over the threshold": min(conductor.staged, default=nan),
        "median delay of detection [ms]": 1e3 * float(np.median(match.delays or [np.nan])),
        "longest delay of detection [ms]": 1e3 * max(match.delays, default=nan),
        "impacts on the arm's stops": float(len(impacts)),
        "longest restart of the detector [s]": max((t for t, _ in restarts), default=nan),
        "of it waiting for a processor [s]": max(restarts, default=(nan, nan))[1],
        "load of the machine": os.getloadavg()[0],
    }
