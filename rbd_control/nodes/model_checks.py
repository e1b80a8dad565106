"""Checks of a detector node: its samples, its first seconds of motion, and the model.

The check is computed in slices between samples, so that it does not delay verdicts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.timer import Timer

from rbd_control.check.live import StartCheck
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError
from rbd_control.estimation import (
    REASONS,
    ContactDetector,
    Detection,
    DetectorParameters,
    Verdict,
    detector_warnings,
)
from rbd_control.estimation.detector_warnings import rate_warning
from rbd_control.identification import EffortKindJudge, GraspWatch, MotionWatch, PayloadWatch
from rbd_control.identification.diagnosis import GRIPPER_SILENCE
from rbd_control.identification.findings import Level, Line
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import ModelParameters
from rbd_control.nodes.detection_output import TAKEN
from rbd_control.robot.payload import PayloadParameters
from rbd_control.ros.diagnostics import ERROR, OK, WARN, Durations, Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode
from rbd_control.ros.joint_state_input import OtherJoint
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.robot_source import PayloadInput, payload_message


class VerdictCounts:
    """Counts samples without a verdict and dropped samples, each by its reason.

    A sample is dropped if it is implausible; the previous verdict then stays, until three samples
    in a row are dropped, or one of them is later than ``maximum_gap`` after the last accepted
    sample. :data:`~rbd_control.estimation.REASONS` lists the reasons.
    """

    def __init__(self) -> None:
        self._samples, self._is_told = 0, False
        self._begin = self._first = time.monotonic()
        self._reasons, self._drops = [0] * len(REASONS), [0] * len(REASONS)
        self._dropped = ""

    def add(self, verdict: Verdict, detection: Detection | None) -> None:
        """Count one sample.

        Args:
            verdict: the verdict of the detector on the sample.
            detection: the verdict with link, force and the text of the reasons; None if it was not
                computed, which is the case only for samples that were not dropped.
        """
        if verdict.valid and not self._reasons[0]:
            self._first = time.monotonic()
        self._samples += 1
        self._reasons[verdict.reason_code] += 1
        if detection is not None and detection.dropped:
            self._drops[detection.dropped_code] += 1
            self._dropped = detection.dropped

    def first_verdict(self) -> str:
        """Return a line for the log about the first verdict, once after 1 s; empty otherwise."""
        since = time.monotonic() - self._first
        if self._is_told or not self._reasons[0] or since < 1.0:
            return ""
        self._is_told = True
        rate = self._reasons[0] / since
        return f"active, first verdict after {self._first - self._begin:.1f} s, {rate:.0f} Hz"

    def report(self, status: Status, has_verdict: bool) -> None:
        """Add the counts to a status; samples dropped since the last report are a warning.

        Without a verdict, the status has its reason already.
        """
        status.add("samples", self._samples)
        status.add("valid samples", self._reasons[0])
        rows = zip(REASONS[1:], self._reasons[1:], self._drops[1:], strict=True)
        for reason, lost, dropped in rows:
            status.add(f"without verdict: {reason}", lost)
            status.add(f"dropped: {reason}", dropped)
        if self._dropped and has_verdict:
            status.raise_to(WARN, f"samples dropped: {self._dropped}")
        self._dropped = ""


PERIOD = 0.02
"""Period of the slices of the computation [s]."""
SLICE = 0.001
"""Time after which a slice ends at the next opportunity [s]."""

_LEVELS: dict[Level, bytes] = {"good": OK, "doubtful": WARN, "bad": ERROR}


class StartCheckStatus:
    """Checks the first seconds of an active detector and reports the findings.

    :class:`~rbd_control.check.live.StartCheck` has the checks.

    Args:
        node: the detector node.
        model: the model that the detector uses.
        parameters: of the detector, per-joint values in the order of the model.
        seconds: length of the checked motion [s]; with 0 there is no check.

    Attributes:
        seconds: length of the checked motion [s].
    """

    def __init__(
        self, node: FaultTolerantNode, model: Model, parameters: DetectorParameters, seconds: float
    ) -> None:
        self._node, self.seconds = node, seconds
        self._check = StartCheck(model, parameters, seconds)
        self._slices: Generator[None, None, None] | None = None
        self._taken = Durations()
        self._failure = ""
        self._timer: Timer | None = None
        if seconds > 0.0:
            self._timer = node.create_timer(PERIOD, self._go_on)

    @property
    def is_running(self) -> bool:
        """Whether the check has not ended."""
        return self._timer is not None

    def add(self, sample: JointSample, is_touched: bool = False) -> None:
        """Store one sample for the check; ignore a sample without velocity or effort.

        Samples are also ignored once the check has all its samples or has ended.

        Args:
            sample: the sample.
            is_touched: whether the detector reports a contact with this sample.
        """
        if self._timer is None or self._check.is_full:
            return
        if sample.v is not None and sample.tau is not None:
            self._check.add(sample.stamp, sample.q, sample.v, sample.tau, is_touched)

    def end(self) -> None:
        """End the check; its findings stay in the report."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None

    def status(self) -> DiagnosticStatus | None:
        """Return the status ``<node>: check`` of the diagnostics; None if the check is disabled.

        Each finding is one value. Doubtful findings are warnings, bad findings are errors.
        """
        if self.seconds <= 0.0:
            return None
        status = Status()
        lines = self._check.lines
        if self._failure:
            status.raise_to(WARN, f"the check failed: {self._failure}")
        elif not lines:
            status.raise_to(OK, f"checking the first {self.seconds:g} s")
        for line in lines:
            if line.level != "good":
                status.raise_to(_LEVELS[line.level], f"{line.topic}: {line.text}")
            status.add(line.topic, line.text)
        self._taken.report(status, "slice")
        name = self._node.get_fully_qualified_name().lstrip("/")
        return DiagnosticStatus(
            level=status.level,
            name=f"{name}: check",
            message="; ".join(status.messages) or "ok",
            hardware_id=name,
            values=status.values,
        )

    def _go_on(self) -> None:
        """Compute for about :data:`SLICE` if all samples are stored; a long step may exceed it."""
        if not self._check.is_full:
            return
        begun = time.perf_counter()
        if self._slices is None:
            self._slices = self._check.in_slices()
        try:
            while time.perf_counter() - begun < SLICE:
                next(self._slices)
        except StopIteration:
            self.end()
        except Exception as error:  # from numbers that passed all checks of the input
            self._failure = str(error) or type(error).__name__
            self.end()
        self._taken.add(time.perf_counter() - begun)


Result = TypeVar("Result")


class Slices(Generic[Result]):
    """Runs a computation in slices between samples, so that it delays no verdict.

    Args:
        node: the node.
        steps: the computation, which yields after each step.
        on_end: called with its result.
    """

    def __init__(
        self,
        node: FaultTolerantNode,
        steps: Generator[None, None, Result],
        on_end: Callable[[Result], None],
    ) -> None:
        self._node, self._steps, self._on_end = node, steps, on_end
        self._timer: Timer | None = node.create_timer(PERIOD, self._go_on)

    def end(self) -> None:
        """End the computation without a result, if it has not ended."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None

    def _go_on(self) -> None:
        """Compute for about :data:`SLICE`; a failure ends the computation."""
        begun = time.perf_counter()
        try:
            while time.perf_counter() - begun < SLICE:
                next(self._steps)
        except StopIteration as end:
            self.end()
            self._on_end(end.value)
        except Exception:
            self.end()
            raise


class GraspedPayload:
    """Takes a payload that the gripper has grasped, and publishes the payload in force.

    :class:`~rbd_control.identification.GraspWatch` has the rule. A payload is taken and put back as
    if it were announced: it may be refused, and the parameters of the node change. The payload in
    force is published on ``~/payload`` when it changes, however it changes, so that a controller
    that reads this topic agrees with the detector; a start of the node changes nothing.

    Args:
        node: the detector node.
        payload: the input of announced payloads.
        present: returns the stamp of the last sample [s]; None before the first.

    Attributes:
        gripper: the joint whose movements count; it has no name while the node is not configured,
            and if the parameter ``gripper_joint`` is empty.
    """

    def __init__(
        self,
        node: ManagedNode[ModelParameters],
        payload: PayloadInput,
        present: Callable[[], float | None],
    ) -> None:
        self._node, self._payload, self._present = node, payload, present
        self._watch = GraspWatch()
        self._publisher = node.open(TAKEN)
        self._published: PayloadParameters | None = None
        self._timer: Timer | None = None
        self.gripper = OtherJoint(self._look)
        node.diagnostics.append(self._report)

    def configure(self, joint: str) -> None:
        """Begin to watch a joint; with an empty name, payloads are neither taken nor published.

        A payload that was taken before the node was cleaned up is put back if the gripper has moved
        meanwhile.
        """
        if not joint:
            return
        self.gripper.name, self._published = joint, self._payload.in_force
        self._timer = self._node.create_timer(PERIOD, self._go_on)

    def cleanup(self) -> None:
        """Stop watching the joint; a payload that was taken stays."""
        self.gripper.name = ""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
            self._timer = None

    def take(self, line: Line) -> bool:
        """Take a payload that explains a contact, if it was grasped and is named a second time.

        Args:
            line: from :class:`~rbd_control.identification.PayloadWatch`.

        Returns:
            Whether it was grasped and must be named again to be taken.
        """
        now = self._present()
        if not self.gripper.name or now is None or not self._watch.is_grasped(line, now):
            return False
        if not self._watch.is_confirmed(line):
            return True
        if self._payload.is_pending or not self._payload.is_checkable:
            return True
        former, model = self._payload.in_force, self._node.robot.model
        mass, logger = line.values["mass"], self._node.get_logger()
        try:
            payload = former.with_point_mass(model, mass, line.values["com"])
        except RbdControlError as error:
            logger.warning(f"the payload of {mass:.2f} kg is not taken: {error.message}")
            return False
        self._watch.take(payload, former)
        self._payload.announce(payload)
        if self._payload.in_force == payload:
            logger.warning(
                f"took a payload of {mass:.2f} kg on {model.joint_links[-1]}, because its contact "
                f"began after {self.gripper.name} moved; it is put back when this joint moves again"
            )
        return False

    def _look(self, position: float) -> None:
        now = self._present()
        if now is not None:
            self._watch.look(position, now)

    def _go_on(self) -> None:
        """Put back the former payload if the gripper has moved, and publish a changed payload."""
        if not self._payload.is_pending:  # it is newer than the taken one, and may be refused
            former = self._watch.put_back(self._payload.in_force)
            if former is not None:
                self._node.get_logger().warning(
                    f"{self.gripper.name} moved: the payload of {former.payload_mass:.2f} kg from "
                    f"before the grasp is put back"
                )
                self._payload.announce(former)
        present = self._payload.in_force
        if present != self._published and self._publisher.try_publish(payload_message(present)):
            self._published = present

    def _report(self, status: Status) -> None:
        if not self.gripper.name:
            return
        status.add("payload taken", self._watch.taken is not None)
        now = self._present()
        if now is not None and now - self._watch.last > GRIPPER_SILENCE:
            status.raise_to(
                WARN,
                f"no position of gripper_joint {self.gripper.name} in the joint states: payloads "
                f"are only named, and a payload that was taken stays",
            )


class PayloadNotice:
    """Explains an open contact as a payload in slices between samples, and reports it.

    :class:`~rbd_control.identification.PayloadWatch` has the rule.

    Args:
        node: the detector node.
        detector: the detector.
        present: returns the payload that the detector's model contains.
        take: called with each explanation; returns whether the contact is to be explained again.
    """

    def __init__(
        self,
        node: FaultTolerantNode,
        detector: ContactDetector,
        present: Callable[[], PayloadParameters],
        take: Callable[[Line], bool],
    ) -> None:
        self._node, self._detector, self._present, self._take = node, detector, present, take
        self._slices: Slices[Line | None] | None = None
        self.restart()

    def restart(self) -> None:
        """Forget all samples, as after a reset, a tare, or a change of model or parameters."""
        detector = self._detector
        self._watch = PayloadWatch(detector.model, detector.parameters, self._present())
        self._forget()
        self.end()

    def _forget(self) -> None:
        self._said: Line | None = None
        self._is_open = True

    def end(self) -> None:
        """End a computation that runs."""
        if self._slices is not None:
            self._slices.end()
            self._slices = None

    def add(self, sample: JointSample, is_touched: bool) -> None:
        """Take a sample; ignore one without velocity or effort."""
        if sample.v is None or sample.tau is None:
            return
        if not is_touched:
            self._forget()
        self._watch.add(sample.stamp, sample.q, sample.v, sample.tau, is_touched)
        if self._slices is None and self._is_open and self._watch.is_due:
            steps = self._watch.in_steps(self._detector.bias)
            self._slices = Slices(self._node, steps, self._explained)

    def report(self, status: Status) -> None:
        """Add the payload that explains the open contact, if there is one, as a warning."""
        if self._said is not None:
            status.raise_to(WARN, self._said.text, is_logged=True)

    def _explained(self, line: Line | None) -> None:
        is_new = self._said is None
        self._slices, self._said = None, line
        if line is None:
            return
        if is_new:
            self._node.get_logger().warning(line.text)
        self._is_open = self._take(line)


FIRST_SECONDS = 10.0
"""Duration of the samples by which model and robot are compared [s].

It begins with the activation, and again after new parameters, a tare or a reset.
"""


class ModelChecks:
    """Runs the checks of a detector node, and reports their findings in log and diagnostics.

    It checks the settings (:func:`~rbd_control.estimation.detector_warnings`), the rate of the
    joint states, whether the efforts fit the parameter ``effort_kind``
    (:mod:`~rbd_control.identification.effort_kind`), whether model and robot agree
    (:class:`~rbd_control.identification.MotionWatch`), and the first seconds of motion
    (:class:`StartCheckStatus`).

    Args:
        node: the node.
        checks_kind: returns the parameter ``check_effort_kind``: whether ``effort_kind`` is
            checked.
        on_refuted: called when the efforts refute ``effort_kind``; no verdict is reliable then.
        present: returns the payload that the detector's model contains.
        take: called with a payload that explains a contact; returns whether the contact is to be
            explained again.

    Attributes:
        effort_kind: decides whether the parameter ``effort_kind`` fits the efforts.
    """

    effort_kind: EffortKindJudge

    def __init__(
        self,
        node: FaultTolerantNode,
        checks_kind: Callable[[], bool],
        on_refuted: Callable[[], None],
        present: Callable[[], PayloadParameters] = PayloadParameters,
        take: Callable[[Line], bool] = lambda _: False,
    ) -> None:
        self._node, self._checks_kind, self._on_refuted = node, checks_kind, on_refuted
        self._present, self._take = present, take
        self._start_check: StartCheckStatus | None = None
        self._fit: MotionWatch | None = None
        self._remarks: tuple[Line, ...] = ()
        self._comparison: Slices[tuple[Line, ...]] | None = None

    def configure(self, detector: ContactDetector) -> None:
        """Use this detector; log warnings about settings that disable or nearly disable detection.

        Call it before all other methods.
        """
        self._detector = detector
        self._payload = PayloadNotice(self._node, detector, self._present, self._take)
        self.effort_kind = EffortKindJudge(detector.model, detector.parameters)
        self._check_settings()

    def activate(self, seconds: float) -> None:
        """Start all checks that need motion of the arm.

        Args:
            seconds: length of the motion that is checked for the status ``check`` of
                ``/diagnostics`` [s]; 0 disables this check.
        """
        self.restart_fit()
        model, parameters = self._detector.model, self._detector.parameters
        self.effort_kind = EffortKindJudge(model, parameters)
        self._begin_start_check(seconds)

    def _begin_start_check(self, seconds: float) -> None:
        self.end()
        detector = self._detector
        self._start_check = StartCheckStatus(
            self._node, detector.model, detector.parameters, seconds
        )

    def end(self) -> None:
        """End the check of the first seconds; its findings stay in the diagnostics."""
        self._payload.end()
        self._end_comparison()
        if self._start_check is not None:
            self._start_check.end()

    def _end_comparison(self) -> None:
        if self._comparison is not None:
            self._comparison.end()
            self._comparison = None

    def parameters_changed(self) -> None:
        """Check the detector's new parameters, and compare model and robot again.

        The check of the first seconds of motion begins again if it has not ended.
        """
        self.effort_kind.set_parameters(self._detector.model, self._detector.parameters)
        self._check_settings()
        self.restart_fit()
        if self._start_check is not None and self._start_check.is_running:
            # The running check would use the old model, for example without the payload.
            self._begin_start_check(self._start_check.seconds)

    def restart_fit(self) -> None:
        """Discard the differences found between model and robot, and compare them again.

        The comparison uses the next :data:`FIRST_SECONDS`.
        """
        self._end_comparison()
        self._fit, self._remarks = MotionWatch(FIRST_SECONDS), ()
        self._payload.restart()

    def add(self, sample: JointSample, verdict: Verdict | None) -> None:
        """Process a sample whose results were published.

        Args:
            sample: the sample.
            verdict: its verdict; None if the detector did not judge it, because ``effort_kind`` is
                refuted. The comparison of model and robot then leaves the sample out.
        """
        if self._start_check is not None:
            self._start_check.add(sample, verdict is not None and verdict.contact)
        if verdict is not None:
            self._payload.add(sample, verdict.contact)
        if verdict is not None and verdict.valid and self._fit is not None:
            self._compare(self._fit, sample, verdict.contact)
        self._check_effort_kind(sample)

    def report(self, status: Status) -> None:
        """Add the findings to the diagnostics of the node.

        A refuted ``effort_kind`` is an error; doubtful settings and differences between model and
        robot are warnings.
        """
        if self._checks_kind():
            decision = self.effort_kind.decision
            if self.effort_kind.is_refuted:
                status.raise_to(ERROR, f"no verdict: {decision.text}", is_logged=True)
            status.add("effort_kind", f"{decision.state}: {decision.text}")
        for warning in self._warnings:
            status.raise_to(WARN, warning)
        warning = rate_warning(self._detector.period, self._detector.parameters)
        if warning:
            status.raise_to(WARN, warning)
        for remark in self._remarks:
            status.raise_to(WARN, remark.text, is_logged=True)
        self._payload.report(status)

    def start_check_status(self) -> DiagnosticStatus | None:
        """Return the status ``check`` of the diagnostics.

        It is None before the first activation, and if the check is disabled.
        """
        return None if self._start_check is None else self._start_check.status()

    def _check_settings(self) -> None:
        """Warn about settings that disable or nearly disable detection."""
        self._warnings = detector_warnings(self._detector.parameters, self._detector.model)

    def _compare(self, fit: MotionWatch, sample: JointSample, is_touched: bool) -> None:
        """Compare model and robot once there are enough samples, and log the differences."""
        if sample.v is None or sample.tau is None:
            return
        if fit.add(sample.stamp, sample.q, sample.v, sample.tau, is_touched):
            self._fit = None
            self._comparison = Slices(self._node, fit.in_steps(self._detector), self._compared)

    def _compared(self, remarks: tuple[Line, ...]) -> None:
        """Log the differences between model and robot."""
        self._remarks = remarks
        for remark in remarks:
            self._node.get_logger().warning(f"if nothing touches the arm: {remark.text}")
        if not remarks:
            self._node.get_logger().info(
                f"nothing in {FIRST_SECONDS:g} s of joint states contradicts the model"
            )

    def _check_effort_kind(self, sample: JointSample) -> None:
        """Check ``effort_kind``; if it is refuted, there is no verdict from the next sample on."""
        if sample.v is None or sample.tau is None or not self._checks_kind():
            return
        judge = self.effort_kind
        was_refuted = judge.is_refuted
        if not judge.add(sample.stamp, sample.q, sample.v, sample.tau):
            return
        if judge.is_refuted:
            self._node.get_logger().error(f"no verdict: {judge.decision.text}")
            self._on_refuted()
        elif was_refuted:
            self._node.get_logger().info(
                "the efforts fit effort_kind now: there are verdicts again"
            )
