"""A run over the wire: scenes of fuzzed input, with a check of the nodes after every burst."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import rclpy
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from bench.fuzz.arm import the_arm
from bench.fuzz.care import ANSWER, Care
from bench.fuzz.inputs import Input
from bench.fuzz.loops import LOOPS, specs
from bench.fuzz.monitor import LoopMonitor
from bench.fuzz.plan import CLOCK, CONFIGURATION, Plan, Scene, Topic
from bench.fuzz.recordings import playable
from bench.fuzz.result import Failure, NodeCount, WireResult, save_bursts
from bench.fuzz.wire import Wire
from bench.rig import Rig, signature, traces_in
from rbd_control.ros.transports import without_shared_memory

LONGEST_LINE = 500
"""Longest line of output that a node may write, however long its input was [characters]."""

OFTEN = 3
"""Number of equal failures after which inputs of their kind are skipped."""

ENDING = 2.0
"""Time after the end of a node in which others may end for the same reason [s]."""

REPORTED = 1.5
"""Time after which every node has reported its counts once more; they do each second [s]."""

KEPT_BURSTS = 20
"""Number of bursts that are saved with a failure."""

Show = Callable[[str], None]


@dataclass(frozen=True)
class Limits:
    """Limits of a run.

    Attributes:
        inputs: number of inputs.
        seconds: longest duration [s].
    """

    inputs: int
    seconds: float


class Session:
    """Starts the nodes, runs scenes with them, and collects their failures.

    Args:
        seed: seed of the run.
        folder: folder for the outputs of the nodes.
        failures: folder for the inputs of failures.
        show: called with the progress as text.
        stack: ends the nodes and ROS when it is closed.

    Attributes:
        result: results so far.
        topics: topics that receive inputs.
        interfaces: services and parameters of the nodes.

    Raises:
        RuntimeError: if a node does not start.
    """

    def __init__(
        self, seed: int, folder: Path, failures: Path, show: Show, stack: ExitStack
    ) -> None:
        self.result = WireResult(seed)
        self._folder, self._failures, self._show = failures, failures, show
        recording = playable(folder / "played.csv")
        config = Path(__file__).with_name("nodes.yaml")
        self._rig = Rig(specs(recording), config, folder, {"ROS_PYTHON_CHECK_FIELDS": "1"})
        stack.callback(self._rig.stop)
        with without_shared_memory():
            rclpy.init(
                args=[],
                domain_id=self._rig.domain,
                signal_handler_options=SignalHandlerOptions.NO,
            )
            stack.callback(rclpy.try_shutdown)
            self._wire = Wire()
        stack.callback(self._wire.destroy)
        arm = the_arm()
        self._monitors = {
            loop: LoopMonitor(self._wire.node, f"/{loop.namespace}", arm.torque_limit)
            for loop in LOOPS
        }
        self._care = Care(self._rig, self._wire, self._monitors, arm, self._note_start)
        self._found: Counter[tuple[str, str, str]] = Counter()
        self._given_up: set[tuple[str, str]] = set()
        self._counts: dict[str, dict[str, int]] = {}
        show("starting the nodes; the first time they compile, which takes a minute")
        topics, self.interfaces = self._care.bring_up()
        # Any torque of the fuzzer would count as a controller's; the arm by itself takes those.
        commands = {monitor.topic for monitor in self._monitors.values()}
        judged = [topic for topic in topics if topic.name not in commands]
        self.topics = [*judged, Topic(*CLOCK, self._rig.names)]

    # Running ---------------------------------------------------------------------------------

    def run(self, plan: Plan, seconds: float) -> None:
        """Run the scenes of a plan, or as many as begin within ``seconds`` [s].

        SIGINT ends the run early; the results until then count.
        """
        begin = time.monotonic()
        self._note_memory()
        with suppress(KeyboardInterrupt):  # what was found until then counts
            self._play_all(plan, begin + seconds)
        self.result.seconds = time.monotonic() - begin
        self._finish()

    def _play_all(self, plan: Plan, deadline: float) -> None:
        for scene in plan.scenes:
            if time.monotonic() > deadline:
                break
            self._show(
                f"scene {scene.number + 1} of {len(plan.scenes)}, {self.result.sent} inputs, "
                f"{len(self.result.failures)} failures: {scene.kind}"
            )
            self._play(scene, plan)
            self._note_memory()

    def repeat(self, bursts: Sequence[Sequence[Input]]) -> None:
        """Send saved bursts again, until a burst fails."""
        begin = time.monotonic()
        scene = Scene("repeated", -1, 0, None, None, self._rig.names)
        if any(each.channel == CLOCK[0] for burst in bursts for each in burst):
            self._care.use_simulated_time(self._rig.names, on=True)
        for k, burst in enumerate(bursts):
            self._show(f"burst {k + 1} of {len(bursts)}")
            failures = self._perform(scene, burst)
            if failures:
                self._report(failures, scene, bursts[: k + 1])
                break
        self._care.use_simulated_time(self._rig.names, on=False)
        self._report(self._care.recover(), scene, bursts)
        self.result.seconds = time.monotonic() - begin
        self._finish()

    def _finish(self) -> None:
        self._wire.spin(REPORTED)
        self._note_memory()
        judges = [monitor.torque for monitor in self._monitors.values()]
        self.result.torques = sum(judge.count for judge in judges)
        self.result.largest_torque = max(judge.largest for judge in judges)
        self.result.unavailable = tuple(sorted(self._wire.unavailable))

    def _play(self, scene: Scene, plan: Plan) -> None:
        key = (scene.kind, scene.topic.name if scene.topic else ",".join(scene.nodes))
        self._prepare(scene)
        sent: list[list[Input]] = []
        for burst in plan.bursts(scene):
            if key in self._given_up:
                self.result.count(burst, "skipped")
                continue
            sent = [*sent[1 - KEPT_BURSTS :], burst]
            failures = self._perform(scene, burst)
            if failures:
                if self._report(failures, scene, sent):
                    self._given_up.add(key)
                self._report(self._care.recover(), scene, sent)
                self._prepare(scene)
        if scene.simulates_time:
            self._care.use_simulated_time(scene.nodes, on=False)
        if scene.topic and not scene.simulates_time and len(scene.topic.nodes) == 1:
            self._wire.forget(scene.topic.name)
        self._report(self._care.recover(), scene, sent)

    def _prepare(self, scene: Scene) -> None:
        """Bring the nodes into the state that a scene requires."""
        if scene.simulates_time:
            self._care.use_simulated_time(scene.nodes, on=True)
        if scene.kind == CONFIGURATION:
            self._care.clean_up(scene.nodes)
        elif scene.topic is not None:
            sample = Input("", scene.topic.name, scene.topic.type, b"")
            self._wire.is_heard(sample, len(scene.topic.nodes), ANSWER)

    def _perform(self, scene: Scene, burst: Sequence[Input]) -> list[Failure]:
        """Send a burst, wait for the nodes to take it, and judge."""
        if scene.kind != CONFIGURATION:
            self._resume()
        unanswered: list[Input] = []
        for is_request, group in groupby(burst, lambda each: each.is_request):
            part = list(group)
            self.result.count(part, "sent")
            if is_request:
                unanswered += self._wire.request(part, ANSWER)
                missing = {id(each) for each in unanswered}
                self.result.count([e for e in part if id(e) not in missing], "received")
            else:
                self._wire.publish(part)
        silent = self._wire.silent(self._rig.names, ANSWER, unless=self._any_ended)
        failures = self._judge(silent)
        failures += [
            Failure("no answer", each.channel, f"request unanswered for {ANSWER:g} s", each.kind)
            for each in (unanswered if not failures else ())
        ]
        if not failures:
            # A node processes its messages in order, and has answered a later request.
            self.result.count([each for each in burst if not each.is_request], "received")
        return failures

    def _resume(self) -> None:
        """Call ``~/resume``, so that not all inputs meet the controllers in mode safe."""
        for loop in LOOPS:
            service = f"/{loop.controller}/resume"
            answer = self._wire.call(
                Trigger, service, Trigger.Request(), ANSWER, unless=self._any_ended
            )
            in_charge = answer is not None and answer.success
            self.result.orders["in charge" if in_charge else "not in charge"] += 1

    def _any_ended(self) -> bool:
        return any(self._rig.exit_code(name) is not None for name in self._rig.names)

    # Judging ---------------------------------------------------------------------------------

    def _judge(self, silent: Sequence[str]) -> list[Failure]:
        """Check processes, outputs and torques."""
        failures = []
        if self._any_ended():
            # The same cause may end further nodes shortly afterwards.
            self._wire.spin(ENDING)
        ended = [name for name in self._rig.names if self._rig.exit_code(name) is not None]
        for name in silent:
            if name not in ended and not ended:
                self._rig.kill(name, with_stack=True)
                trace = self._take_output(name)
                what = f"no answer within {ANSWER:g} s"
                failures.append(Failure("no answer", name, what, trace=trace[-4000:]))
        for name in self._rig.names:
            output = self._take_output(name)
            traces = traces_in(output)
            if name in ended:
                code = self._rig.exit_code(name)
                last = traces[-1] if traces else output[-2000:]
                detail = f"ended with code {code}: {signature(last)}"
                failures.append(Failure("ended", name, detail, trace=last))
            else:
                failures += [
                    Failure("traceback", name, signature(trace), trace=trace) for trace in traces
                ]
            failures += _long_lines(name, output)
        for loop, monitor in self._monitors.items():
            for violation in monitor.torque.take_violations():
                text = re.sub(r"-?\d+\.\d+(e[+-]\d+)?", "#", violation)
                failures.append(Failure("torque", loop.controller, text, trace=violation))
        return failures

    def _take_output(self, name: str) -> str:
        output = self._rig.output(name)
        self.result.nodes[name].lines += output.count("\n")
        return output

    def _report(
        self, failures: Sequence[Failure], scene: Scene, bursts: Sequence[Sequence[Input]]
    ) -> bool:
        """Store failures, with the inputs of new failures; return whether a failure is frequent."""
        frequent = False
        for failure in failures:
            self._found[failure.signature] += 1
            count = self._found[failure.signature]
            frequent |= count >= OFTEN
            saved = ""
            if count == 1:
                self._show(f"new failure: {failure.what}, {failure.where}: {failure.detail}")
                path = self._failures / f"{len(self.result.failures):03d}.json"
                about = {
                    "seed": self.result.seed,
                    "scene": scene.number,
                    "kind": scene.kind,
                    "what": failure.what,
                    "where": failure.where,
                    "detail": failure.detail,
                    "trace": failure.trace,
                }
                save_bursts(path, bursts, about)
                saved = str(path)
            self.result.failures.append(
                replace(
                    failure,
                    kind=failure.kind or scene.kind,
                    scene=scene.number,
                    saved=saved,
                )
            )
        return frequent

    # Counting --------------------------------------------------------------------------------

    def _note_start(self, name: str) -> None:
        count = self.result.nodes.setdefault(name, NodeCount())
        count.starts += 1
        count.kilobytes.append([])

    def _note_memory(self) -> None:
        """Store the memory of each process, and the counts in its diagnostics."""
        for name, count in self.result.nodes.items():
            used = self._rig.resident(name)
            if used and self._rig.owns_process(name):
                count.kilobytes[-1].append((self.result.sent, used))
            _, _, values = self._wire.reports.get(name, (0, "", {}))
            now = {
                key: int(value)
                for key, value in values.items()
                if value.isdigit() and "[" not in key and key != "publishers"
            }
            before = self._counts.get(name, {})
            for key, value in now.items():
                # A count that has decreased comes from a restarted node.
                old = before.get(key, 0)
                count.counted[key] += value - old if value >= old else value
            self._counts[name] = now


def _long_lines(name: str, output: str) -> list[Failure]:
    # The C library of ROS repeats type hashes and labels of transitions as it got them, before any
    # code of the package.
    own = ("[rcl]:", "[rcl_lifecycle]:")
    lines = [line for line in output.splitlines() if not any(name in line for name in own)]
    longest = max(lines, key=len, default="")
    if len(longest) <= LONGEST_LINE:
        return []
    text = re.sub(r"\[\d+\.\d+\]", "", longest[:120])
    detail = f"a line of over {LONGEST_LINE} characters: {text}"
    return [Failure("long line", name, detail, trace=text)]


def fuzz_wire(
    seed: int, limits: Limits, failures: Path, show: Show, only: Sequence[str] = ()
) -> WireResult:
    """Start the nodes, fuzz them, and return the results.

    Args:
        seed: seed of all choices.
        limits: number of inputs and longest duration.
        failures: folder for the inputs of failures.
        show: called with the progress as text.
        only: kinds of inputs, keys of :data:`~bench.fuzz.plan.SHARES`; empty: all.

    Raises:
        RuntimeError: if a node does not start.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fuzz_")))
        session = Session(seed, folder, failures, show, stack)
        plan = Plan(seed, limits.inputs, session.topics, session.interfaces, the_arm(), only)
        session.run(plan, limits.seconds)
        return session.result


def repeat_wire(bursts: Sequence[Sequence[Input]], failures: Path, show: Show) -> WireResult:
    """Send saved bursts to newly started nodes; return the results.

    Args:
        bursts: the saved inputs, from :func:`~bench.fuzz.result.load_bursts`.
        failures: folder for the inputs of failures.
        show: called with the progress as text.

    Raises:
        RuntimeError: if a node does not start.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fuzz_")))
        session = Session(0, folder, failures, show, stack)
        session.repeat(bursts)
        return session.result
