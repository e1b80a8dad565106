"""The node that detects contact from joint states."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from rbd_control.errors import RbdControlError
from rbd_control.estimation import (
    REASONS,
    ContactDetector,
    ContactEvent,
    Detection,
    DetectorParameters,
    EffortKindJudge,
    FitWatch,
    Mismatch,
    ToolWrench,
    Verdict,
    detector_warnings,
)
from rbd_control.estimation.default_thresholds import unset, with_default_thresholds
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import FrameParameters, ReceivingParameters
from rbd_control.nodes.contact_messages import (
    THRESHOLD,
    ForceArrow,
    ForceWriter,
    event_line,
    event_message,
)
from rbd_control.nodes.diagnostics import ERROR, WARN, Status
from rbd_control.nodes.joint_state_input import JointStateInput
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import (
    EVERY_SAMPLE,
    READERS_PERIOD,
    JointStateWriter,
    Stamp,
    to_stamp,
)
from rbd_control.nodes.payload_input import PayloadInput
from rbd_control.nodes.repeated_topic import REPEAT_PERIOD, verdict_qos
from rbd_control.nodes.run import run
from rbd_control.nodes.start_check import StartCheckStatus
from rbd_control.nodes.tool_wrench_output import ToolWrenchOutput
from rbd_control.nodes.verdict_output import TOPIC as STAMPED
from rbd_control.nodes.verdict_output import StampedVerdict
from rbd_control.parameters import parameter
from rbd_control.robot.surface import missing_geometry, surface_of_robot
from rbd_control.startup.rehearsal import rehearse_detector

LOG_PERIOD = 0.1
"""Period at which events are logged [s]."""

MOST_UNLOGGED = 20
"""Maximum number of events that wait to be logged; older events are not logged."""

MOST_UNTOLD = 50
"""Maximum number of events that the middleware has refused; older events are discarded."""

FIRST_SECONDS = 10.0
"""Length of the motion after a start or new parameters on which the model is checked [s]."""

SILENCE = 0.1
"""Time without a usable sample after which there is no verdict [s]."""

REPORT = "report of a sample"
"""Name under which the guard counts failures after the flag was published."""


@dataclass(frozen=True)
class ContactDetectorParameters(FrameParameters, ReceivingParameters, DetectorParameters):
    """Parameters of the node: the arm, its input, and the detector's."""

    queue_depth: int = parameter(
        1000,
        "joint states kept while the node is busy; a second of them at 1 kHz",
        lower=1,
        upper=100_000,
        live=False,
    )
    start_check_time: float = parameter(
        10.0,
        "length of the motion after the start that is checked for the status check of /diagnostics;"
        " 0: no check",
        unit="s",
        lower=0.0,
        upper=60.0,
        live=False,
    )


def _nobody(*_: object) -> None:
    """Ignore the arguments; the default callback."""


class _Judged(NamedTuple):
    """A sample whose verdict is known and whose results are not published yet."""

    sample: JointSample
    stamp: Stamp
    verdict: Verdict | None
    """None while the kind of the efforts is refuted."""
    detection: Detection | None = None
    """The detection, if the next sample has been judged meanwhile."""
    wrench: ToolWrench | None = None
    """The wrench at the tool in this case."""


class SampleSource(Protocol):
    """Source of a detector's samples."""

    latest: JointSample | None

    def destroy(self) -> None:
        """Destroy the source."""


class ContactDetectorNode(ManagedNode[ContactDetectorParameters]):
    """Runs a :class:`ContactDetector` on each sample and publishes its results."""

    parameters_type = ContactDetectorParameters
    reads_joint_states = True

    def __init__(self) -> None:
        super().__init__("contact_detector")
        expiring = verdict_qos(get_rmw_implementation_identifier())
        self._contact = self.create_publisher(Bool, "~/contact", expiring)
        self._verdicts = self.create_publisher(DiagnosticArray, STAMPED, expiring)
        self._torques = self.create_publisher(JointState, "~/external_joint_torques", EVERY_SAMPLE)
        self._events = self.create_publisher(DiagnosticArray, "~/events", QoSProfile(depth=50))
        self._forces = self.create_publisher(WrenchStamped, "~/external_wrench", EVERY_SAMPLE)
        self._markers = self.create_publisher(MarkerArray, "~/markers", QoSProfile(depth=10))
        self.create_service(Trigger, "~/reset", self._on_reset)
        self.create_service(Trigger, "~/tare", self._on_tare)
        self.create_timer(REPEAT_PERIOD, self._repeat_all, clock=self.steady)
        self.create_timer(LOG_PERIOD, self._log_events, clock=self.steady)
        self._unlogged: deque[str] = deque(maxlen=MOST_UNLOGGED)
        self.create_timer(READERS_PERIOD, self._look_for_readers, clock=self.steady)
        self._verdict: bool | None = None
        self._is_told = True
        """Whether the verdict was published since its last change."""
        self._untold: deque[DiagnosticArray] = deque(maxlen=MOST_UNTOLD)
        self._has_judged = False
        self._judged: list[_Judged] = []
        self._payload = PayloadInput(self, self._position)
        self.on_verdict: Callable[[bool], None] = _nobody
        """Callback for each verdict before it is published, for a controller in this process."""
        self.on_force: Callable[[str, np.ndarray], None] = _nobody
        """Callback for the touched link and the force on it, (3,) in world axes [N]."""
        self.diagnostics.append(self._report)
        self._check: StartCheckStatus | None = None
        self.more_diagnostics.append(lambda: self._check.status() if self._check else None)

    def configure(self) -> None:
        """Create the detector and compile its kernels."""
        model, parameters = self.robot.model, self._detector_parameters()
        for note in unset(self.robot.in_model_order(self.parameters), model):
            self.get_logger().info(note)
        surface = surface_of_robot(self.robot)
        if note := missing_geometry(model, surface):
            self.get_logger().info(note)
        self._detector = ContactDetector(model, parameters, self._on_contact, surface)
        rehearse_detector(model, parameters)
        self._effort_kind = EffortKindJudge(model, parameters)
        self._warn()
        prefix, self._frame = self.parameters.frame_prefix, self._root_frame()
        self._writer = JointStateWriter(self._torques, model.joint_names, self._frame)
        self._stamped = StampedVerdict(
            self._verdicts, self._full_name, model.joint_names, self._frame
        )
        self._force = ForceWriter(model, self._forces, prefix)
        self._arrow = ForceArrow(model, self._markers, prefix)
        self._tool = ToolWrenchOutput(self, self._detector, prefix)
        self._input = self._make_input()

    @property
    def _full_name(self) -> str:
        """The name of the node with its namespace, as diagnostics have it."""
        return str(self.get_fully_qualified_name()).lstrip("/")

    def _root_frame(self) -> str:
        return self.parameters.frame_prefix + self.robot.model.link_names[0]

    def _make_input(self) -> SampleSource:
        """Return the source of the samples."""
        return JointStateInput(
            self,
            self.robot.model.joint_names,
            lambda: SILENCE,
            self._on_sample,
            self._on_silence,
            self._on_jump,
            match_prefix=True,
        )

    def cleanup(self) -> None:
        """Destroy subscription and publishers."""
        self._input.destroy()
        self._tool.destroy()

    def activate(self) -> None:
        """Start the statistics, and the checks of the model and of the kind of the efforts."""
        self._watch()
        model, parameters = self.robot.model, self._detector.parameters
        self._effort_kind = EffortKindJudge(model, parameters)
        self._end_check()
        self._check = StartCheckStatus(self, model, parameters, self.parameters.start_check_time)
        self._samples = 0
        self._reasons, self._drops = [0] * len(REASONS), [0] * len(REASONS)
        self._dropped = ""

    def deactivate(self) -> None:
        """End the verdict and reset the detector."""
        self._end_check()
        self._on_silence()
        self._reset()

    def _end_check(self) -> None:
        if self._check is not None:
            self._check.end()

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has it
        """End the verdict, so that the last verdict is not repeated after a failure.

        A failure after the flag was published does not make the verdict wrong, so that it stays.
        """
        if self.is_active and name != REPORT:
            self._on_silence()

    def check_parameters(self, new: ContactDetectorParameters) -> None:
        """Raise an error if a per-joint parameter has the wrong number of values."""
        ContactDetector(self.robot.with_parameters(new).model, self.robot.in_model_order(new))

    def parameters_changed(self) -> None:
        """Apply new parameters; an open contact, the tare and the residual are kept."""
        self.robot = self.robot.with_parameters(self.parameters)
        parameters, before = self._detector_parameters(), self._detector.parameters
        names = DetectorParameters.names()
        if any(getattr(parameters, name) != getattr(before, name) for name in names):
            # Not after a change of the payload alone, because the verdict would pause.
            rehearse_detector(self.robot.model, parameters)
        self._detector.set_parameters(parameters)
        self._detector.set_model(self.robot.model)
        self._effort_kind.set_parameters(self.robot.model, parameters)
        self._warn()
        self._watch()

    def _detector_parameters(self) -> ContactDetectorParameters:
        """Return the parameters in the order of the model, default thresholds filled in."""
        ordered = self.robot.in_model_order(self.parameters)
        return with_default_thresholds(ordered, self.robot.model)

    def _watch(self) -> None:
        self._fit: FitWatch | None = FitWatch(FIRST_SECONDS)
        self._mismatches: tuple[Mismatch, ...] = ()

    def _check_fit(self, fit: FitWatch, sample: JointSample) -> None:
        """Log once the differences between model and robot."""
        if sample.v is None or sample.tau is None:
            return
        if fit.add(sample.stamp, sample.q, sample.v, sample.tau):
            self._mismatches = fit.mismatches(self._detector)
            self._fit = None
            for mismatch in self._mismatches:
                self.get_logger().warning(f"unless something touches the arm: {mismatch.text}")

    def _warn(self) -> None:
        """Warn about settings that disable or nearly disable detection."""
        self._doubts = detector_warnings(self._detector.parameters, self._detector.model)
        for doubt in self._doubts:
            self.get_logger().warning(doubt)

    def _check_effort_kind(self, sample: JointSample) -> None:
        """Judge ``effort_kind``; without verdict from the next sample on if it is refuted."""
        if sample.v is None or sample.tau is None or not self.parameters.check_effort_kind:
            return
        judge = self._effort_kind
        was_refuted = judge.is_refuted
        if not judge.add(sample.stamp, sample.q, sample.v, sample.tau):
            return
        if judge.is_refuted:
            self.get_logger().error(f"no verdict: {judge.decision.text}")
            self._forget()
            self._on_silence()
        elif was_refuted:
            self.get_logger().info("the efforts fit effort_kind now: there are verdicts again")

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        self.judge(sample, stamp)
        self.report()

    def judge(self, sample: JointSample, stamp: Stamp) -> None:
        """Judge a sample and publish the flag if it changes; nothing else is computed.

        :meth:`report` publishes all other results. In one process with a controller the torque of
        the sample comes in between.
        """
        self._complete_last()
        verdict = None
        if not (self._effort_kind.is_refuted and self.parameters.check_effort_kind):
            verdict = self._detector.judge(sample.stamp, sample.q, sample.v, sample.tau)
            self._has_judged = True
            flag = verdict.contact if verdict.valid else None
            if flag != self._verdict or not self._is_told:
                self._verdict = flag
                self._repeat()
        self._judged.append(_Judged(sample, stamp, verdict))

    def report(self) -> None:
        """Publish all results of the judged samples but the flag; never raise an exception."""
        judged, self._judged = self._judged, []
        for each in judged:
            self.guard.run(REPORT, self._report_sample, each)

    def _complete_last(self) -> None:
        """Store the results of a sample that waits for :meth:`report`: the detector has one."""
        if not self._judged or self._judged[-1].verdict is None:
            return
        detection = self.guard.run(REPORT, self._detector.complete)
        wrench = None
        if self._tool.is_heard:
            wrench = self.guard.run(REPORT, self._detector.tool_wrench)
        self._judged[-1] = self._judged[-1]._replace(detection=detection, wrench=wrench)

    def _report_sample(self, judged: _Judged) -> None:
        sample, stamp, verdict, *_ = judged
        if verdict is not None:
            self._publish(judged, verdict)
            self._samples += 1
            self._reasons[verdict.reason_code] += 1
        if self._check is not None:
            self._check.add(sample, verdict is not None and verdict.contact)
        if verdict is not None and self._fit is not None:
            self._check_fit(self._fit, sample)
        self._check_effort_kind(sample)

    def _on_contact(self) -> None:
        """Publish the raised flag before any other computation, because receivers stop arms."""
        self._verdict = True
        self._repeat()

    def _on_jump(self) -> None:
        self._on_silence()
        self._reset()

    def _position(self) -> np.ndarray | None:
        """Return the present joint positions, (nq,) [rad or m]; None while unknown."""
        latest = self._input.latest if self.is_active else None
        return None if latest is None else latest.q

    def _reset(self) -> None:
        """Reset the detector and restart the decision on the kind of the efforts."""
        self._effort_kind.start_again()
        self._forget()

    def _forget(self) -> None:
        """Reset the detector; publish the release of an open contact at its last valid sample."""
        event = self._detector.reset()
        self._watch()
        if event is not None:
            end = to_stamp(event.detected if event.release is None else event.release)
            self._tell(event, Stamp(end.sec, end.nanosec))

    def _tell(self, event: ContactEvent, stamp: Stamp) -> None:
        self._untold.append(event_message(self._full_name, event, stamp, self._frame))
        self._publish_events()
        # A log line takes as long as ten samples, so it is written later, by a timer.
        self._unlogged.append(event_line(event))

    def _publish_events(self) -> None:
        """Publish events in their order; keep those that the middleware refuses."""
        while self._untold and self._events.try_publish(self._untold[0]):
            self._untold.popleft()

    def _on_silence(self) -> None:
        self._verdict = None
        self._has_judged = False
        self._stamped.clear()
        self._arrow.clear()

    def _publish(self, judged: _Judged, verdict: Verdict) -> None:
        """Publish the residual, then link, force and event, then the wrench at the tool."""
        sample, stamp = judged.sample, judged.stamp
        if sample.v is not None and sample.tau is not None:
            self._writer.publish(stamp, effort=verdict.residual)
        if verdict.is_quiet and not self._stamped.is_heard:
            self._stamped.clear()
            self._arrow.clear()
        else:
            self._publish_contact(judged.detection or self._detector.complete(), sample, stamp)
        if self._tool.is_heard and verdict.valid and not verdict.dropped_code:
            self._tool.publish(judged.wrench or self._detector.tool_wrench(), stamp)

    def _publish_contact(self, detection: Detection, sample: JointSample, stamp: Stamp) -> None:
        if detection.dropped:
            self._drops[detection.dropped_code] += 1
            self._dropped = detection.dropped
        self._stamped.take(detection, self._detector.contact_threshold, stamp)
        if detection.event is not None:
            self._tell(detection.event, stamp)
        if not (detection.contact and detection.force is not None):
            self._arrow.clear()
        elif not detection.dropped:  # the position in a dropped sample is not reliable
            self.on_force(detection.link, detection.force)
            self._force.publish_force(sample.q, detection.link, detection.force, stamp)
            self._arrow.show(sample.q, detection.link, detection.force, detection.point, stamp)

    def _look_for_readers(self) -> None:
        if self.is_active:
            self._writer.look_for_readers()
            self._force.look_for_readers()
            self._stamped.look_for_readers()
            self._tool.look_for_readers()

    def _log_events(self) -> None:
        while self._unlogged:
            self.get_logger().info(self._unlogged.popleft())

    def _repeat_all(self) -> None:
        self._publish_events()
        if self._verdict is not None:
            self._repeat()
            self._stamped.repeat()

    def _repeat(self) -> None:
        """Publish the verdict, if there is one; a refused verdict is repeated with each sample."""
        self._is_told = True
        if self._verdict is not None:
            self.on_verdict(bool(self._verdict))
            self._is_told = self._contact.try_publish(Bool(data=bool(self._verdict)))

    def _on_reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._trigger(response, self._reset)

    def _on_tare(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._trigger(response, self._tare)

    def _tare(self) -> None:
        self._detector.tare()
        self._watch()

    def _trigger(self, response: Trigger.Response, what: Callable[[], None]) -> Trigger.Response:
        if not self.is_active:
            response.message = "the node is not active"
            return response
        try:
            what()
        except RbdControlError as error:
            response.message = str(error)
            return response
        response.success = True
        return response

    def _report(self, status: Status) -> None:
        detection = self._detector.complete() if self._has_judged else None
        status.add("valid", detection is not None and detection.valid)
        if not self.is_active:
            return
        if self.parameters.check_effort_kind:
            decision = self._effort_kind.decision
            if self._effort_kind.is_refuted:
                status.raise_to(ERROR, f"no verdict: {decision.text}")
            status.add("effort_kind", f"{decision.state}: {decision.text}")
        for doubt in self._doubts:
            status.raise_to(WARN, doubt)
        for mismatch in self._mismatches:
            status.raise_to(WARN, mismatch.text)
        joints = self.robot.model.joint_names
        for joint, threshold in zip(joints, self._detector.contact_threshold, strict=True):
            status.add(f"{THRESHOLD}{joint} [N·m]", float(threshold))
        if detection is None:
            return
        status.add("samples", self._samples)
        status.add("valid samples", self._reasons[0])
        for reason, lost, dropped in list(zip(REASONS, self._reasons, self._drops, strict=True))[
            1:
        ]:
            status.add(f"without verdict: {reason}", lost)
            status.add(f"dropped: {reason}", dropped)
        if self._dropped:
            status.raise_to(WARN, f"samples dropped: {self._dropped}")
            self._dropped = ""
        if not detection.valid:
            status.raise_to(WARN, f"no verdict: {detection.reason}")
        status.add("contact", detection.contact)
        status.add("level", detection.level)
        for joint, torque in zip(joints, detection.residual, strict=True):
            status.add(f"residual {joint} [N·m]", float(torque))
        self._tool.report(status)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(ContactDetectorNode, args)


if __name__ == "__main__":
    sys.exit(main())
