"""The node that detects contact from joint states."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from rbd_control.errors import InputError, ParameterError
from rbd_control.estimation import ContactDetector, Detection, DetectorParameters
from rbd_control.estimation.thresholds import unset, with_default_thresholds
from rbd_control.files.yaml_output import yaml_lines
from rbd_control.joint_states import JointSample
from rbd_control.joint_states.prefix import PrefixMatch
from rbd_control.node_parameters import (
    FrameParameters,
    GripperParameters,
    ReceivingParameters,
    StartCheckParameters,
)
from rbd_control.nodes.detection_output import (
    CONTACT,
    DRIFT,
    EVENTS,
    FORCE,
    MARKERS,
    RESIDUAL,
    STAMPED,
    TAKEN,
    TOOL_COVARIANCE,
    TOOL_WRENCH,
    DetectionOutput,
    FlagOutput,
    JudgedSample,
)
from rbd_control.nodes.model_checks import GraspedPayload, ModelChecks, VerdictCounts
from rbd_control.parameters import parameter
from rbd_control.robot.joint_choice import HeldJoints
from rbd_control.robot.shapes import missing_geometry, surface_of_robot
from rbd_control.ros.contact_messages import THRESHOLD
from rbd_control.ros.diagnostics import WARN, Status
from rbd_control.ros.joint_state_input import SAMPLES, JointStateInput, OtherJoint
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import REPEAT_PERIOD, Stamp
from rbd_control.ros.robot_source import PayloadInput
from rbd_control.ros.run import run
from rbd_control.startup.compilation import rehearse_detector

SILENCE = 0.1
"""Age of the last usable joint state above which there is no verdict (contact, no contact) [s]."""

REMEDIES = dict.fromkeys(
    ("no velocity", "velocity not measured"),
    "; set velocity_filter: 0.02, and velocities are computed from the positions",
)
"""What to do about a reason why there is no verdict, by reason."""

REPORT = "report of a sample"
"""Name under which :class:`CallbackErrors` counts failures after the flag was published."""


@dataclass(frozen=True)
class ContactDetectorParameters(
    StartCheckParameters,
    GripperParameters,
    FrameParameters,
    ReceivingParameters,
    DetectorParameters,
):
    """Parameters of the node: arm, joint-state input, frames, gripper, start check, detector."""

    HEADING = "Joint states"

    queue_depth: int = parameter(
        1000,
        "queue depth of the joint-state subscription; 1000 joint states are one second at 1 kHz",
        lower=1,
        upper=100_000,
        live=False,
        expert=True,
    )


class SampleSource(Protocol):
    """Interface of the object that passes joint-state samples to a detector node.

    Attributes:
        latest: the last sample; None before the first sample.
    """

    latest: JointSample | None

    @property
    def is_silent(self) -> bool:
        """Whether more than :data:`SILENCE` has passed since the last sample that was not late.

        A late sample has waited while the process was paused or busy. The value is true before the
        first sample.
        """

    def destroy(self) -> None:
        """Destroy the subscription and the timers of the source."""


class ContactDetectorNode(ManagedNode[ContactDetectorParameters]):
    """Runs a :class:`ContactDetector` on each sample and publishes its results.

    The service ``~/reset`` resets the detector and clears all tares, see
    :meth:`ContactDetector.reset`; ``~/tare`` calls :meth:`ContactDetector.tare`; ``~/friction``
    answers with the friction of the day as parameters for the file of the arm.

    Attributes:
        flag: publishes the contact flag on ``~/contact``.
        output: publishes all other results: residual, stamped verdict, events, force and wrench.
    """

    parameters_type = ContactDetectorParameters
    outputs = (
        CONTACT,
        STAMPED,
        EVENTS,
        RESIDUAL,
        FORCE,
        MARKERS,
        TOOL_WRENCH,
        TOOL_COVARIANCE,
        DRIFT,
        TAKEN,
    )
    reads_joint_states = True

    def __init__(self) -> None:
        super().__init__("contact_detector")
        self.flag = FlagOutput(self)
        self.output = DetectionOutput(self)
        # Only the service clears the tare: restarts after jumps of the clock keep it.
        self.offer("reset", partial(self._reset, clear_tare=True))
        self.offer("tare", self._tare)
        self.offer("friction", self._friction)
        self.create_timer(REPEAT_PERIOD, self._repeat)
        self._has_judged = self._is_late = False
        self._model_error = ""
        """Reason why the last sample shows that the model is wrong; empty if it does not."""
        self._judged = -math.inf
        """Time of the last sample that gave a verdict, on the steady clock [s]."""
        self._unreported: list[JudgedSample] = []
        self._counts = VerdictCounts()
        self._payload = PayloadInput(self, self._posture)
        self._grasped = GraspedPayload(self, self._payload, self._last_stamp)
        self._checks = ModelChecks(
            self,
            lambda: self.parameters.check_effort_kind,
            self._on_refuted_kind,
            lambda: self._payload.in_force,
            self._grasped.take,
        )
        self.diagnostics.append(self._report)
        self.more_diagnostics.append(self._checks.start_check_status)

    def _make_input(self) -> SampleSource:
        """Return the source of the samples."""
        model = self.robot.model
        source = JointStateInput(
            self,
            model.joint_names,
            lambda: SILENCE,
            self._on_sample,
            self._on_silence,
            self._on_jump,
            prefix=PrefixMatch(model.joint_names, model.other_joints),
        )
        if self.robot.supporting:
            source.held = HeldJoints(self.robot.supporting)
        source.other = self.gripper
        return source

    @property
    def gripper(self) -> OtherJoint:
        """The joint of the parameter ``gripper_joint``, which the source of the samples reads."""
        return self._grasped.gripper

    # From a sample to the flag, then to all other results --------------------------------------

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        self.judge(sample, stamp)
        self.report()

    def judge(self, sample: JointSample, stamp: Stamp) -> None:
        """Decide whether a sample shows contact, and publish the flag if it changes.

        A flag that the middleware refused is published again with the next sample. No other result
        of the sample is computed: :meth:`report` publishes all other results; in one process with a
        controller the torque of the sample is published before that. A raised flag is published by
        the detector's callback within ``ContactDetector.judge``. The flag of a late sample is not
        published, because the sample does not show the present state; a late sample, and a sample
        without verdict, end the repetition of the flag. With ``check_effort_kind`` no sample is
        judged while the efforts contradict ``effort_kind``. A sample with a ``model_error`` is not
        judged either, nor any while another robot description has been published.

        Args:
            sample: the joint state in the order of the model.
            stamp: its stamp, exact to the nanosecond.

        Raises:
            InputError: as :meth:`ContactDetector.judge`.
        """
        if self._payload.is_pending:
            self._payload.settle()
        if self._unreported:
            self._complete_last()
        error = sample.model_error or self.contradiction
        if error != self._model_error:
            self._on_model_error(error)
        verdict = None
        if not (self._model_error or self._is_refuted):
            self._is_late = sample.is_late
            verdict = self._detector.judge(sample.stamp, sample.q, sample.v, sample.tau)
            self._has_judged = True
            if sample.is_late or not verdict.valid:
                self.flag.end()
            else:
                self._judged = time.monotonic()
                if verdict.contact != self.flag.value or not self.flag.is_published:
                    self.flag.publish(verdict.contact)
        self._unreported.append(JudgedSample(sample, stamp, verdict))

    @property
    def _is_refuted(self) -> bool:
        """Whether there is no verdict because the efforts contradict ``effort_kind``."""
        return self._checks.effort_kind.is_refuted and self.parameters.check_effort_kind

    def _raise_flag(self) -> None:
        """Publish the flag of a contact that has just begun, unless its sample is late."""
        if not self._is_late:
            self.flag.publish(True)

    def report(self) -> None:
        """Publish all results except the flag for the samples since the last call.

        Exceptions are counted and logged under :data:`REPORT`, not raised.
        """
        judged, self._unreported = self._unreported, []
        for each in judged:
            self.errors.run(REPORT, self._report_sample, each)

    def _complete_last(self) -> None:
        """Store the results of the last sample that waits for :meth:`report`.

        It is called before the next sample, because the detector keeps the results of one sample.
        """
        last = self._unreported[-1]
        if last.verdict is None:
            return
        detection = self.errors.run(REPORT, self._detector.complete)
        wrench = None
        if self.output.needs_tool_wrench:
            wrench = self.errors.run(REPORT, self._detector.tool_wrench)
        self._unreported[-1] = last._replace(is_completed=True, detection=detection, wrench=wrench)

    def _report_sample(self, judged: JudgedSample) -> None:
        verdict = judged.verdict
        if verdict is not None:
            detection = self.output.publish(judged, verdict)
            if not judged.sample.is_late:
                self._counts.add(verdict, detection)
        if not self._model_error:
            self._checks.add(judged.sample, verdict)

    # End of the verdict ------------------------------------------------------------------------

    def _on_silence(self) -> None:
        self.flag.end()
        self._has_judged = False
        self.output.clear()

    def _on_jump(self) -> None:
        self._on_silence()
        self._reset()

    def _on_model_error(self, error: str) -> None:
        """End the verdict and reset the detector, because the model becomes wrong or right again.

        Args:
            error: why the model is wrong; empty if it is right again.
        """
        self.report()  # an onset in the sample before is published before its release
        self._model_error = error
        self._forget()
        self._on_silence()
        logger = self.get_logger()
        if error:
            logger.error(f"no verdict: {error}")
        else:
            logger.info("the model fits again: held joints and description are those of the start")

    def _on_refuted_kind(self) -> None:
        self._forget()
        self._on_silence()

    def _reset(self, *, clear_tare: bool = False) -> None:
        """Reset the detector and restart the decision on the kind of the efforts."""
        self._checks.effort_kind.start_again()
        self._forget(clear_tare=clear_tare)

    def _forget(self, *, clear_tare: bool = False) -> None:
        """Reset the detector; publish the release of an open contact, at the last sample."""
        event = self._detector.reset(clear_tare=clear_tare)
        self._checks.restart_fit()
        if event is not None:
            self.output.publish_release(event)

    # Timers and services -----------------------------------------------------------------------

    def _repeat(self) -> None:
        """Repeat the flag and the stamped verdict, or end a verdict that is out of date.

        Events that the middleware has refused are published first.
        """
        self.output.publish_waiting_events()
        if self.flag.value is None:
            return
        if not self.has_verdict:  # the node was paused, and this timer runs first afterwards
            self._on_silence()
            return
        self.flag.publish(self.flag.value)
        self.output.repeat()

    def _tare(self) -> None:
        if not self.has_verdict:
            raise InputError("cannot tare: there is no verdict")
        self._detector.tare()
        self._checks.restart_fit()

    def _friction(self) -> str:
        """Return the parameters of the friction of the day, in the order of ``joints``, as YAML."""
        if not self._detector.drift:
            raise InputError("no friction is followed: none is set, or follow_friction is false")
        name, columns = self._detector.friction_of_the_day.named()
        values: dict[str, Any] = {key: tuple(column.tolist()) for key, column in columns.items()}
        ordered = self.robot.in_model_order(self.parameters)
        found = self.robot.in_joint_order(replace(ordered, friction_model=name, **values))
        rows = {key: [float(f"{x:.4g}") for x in getattr(found, key)] for key in columns}
        return "\n".join(yaml_lines({"friction_model": name, **rows}, 0))

    def _posture(self) -> np.ndarray | None:
        """Return the present joint positions, (nq,) [rad or m], or None if they are unknown."""
        latest = self._input.latest
        return None if latest is None or self._input.is_silent else latest.q

    def _last_stamp(self) -> float | None:
        """Return the stamp of the last sample [s]; None before the first."""
        latest = self._input.latest
        return None if latest is None else latest.stamp

    # Lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the detector and its subscription, and compile its kernels.

        Raises:
            ParameterError, InputError: for parameters that do not fit the arm, see
                :class:`ContactDetector`, and for a ``gripper_joint`` that is a joint of the arm.
        """
        model, parameters = self.robot.model, self._detector_parameters()
        joint = self.parameters.gripper_joint
        if joint in model.joint_names:
            raise ParameterError(f"gripper_joint {joint!r} is a joint of the arm")
        for note in unset(self.robot.in_model_order(self.parameters), model):
            self.get_logger().info(note)
        if late := self.parameters.velocity_filter:
            self.get_logger().info(
                f"velocities are computed from positions (velocity_filter: {late:g} s); contacts "
                "are found later by about as much"
            )
        surface = surface_of_robot(self.robot)
        if note := missing_geometry(model, surface):
            self.get_logger().info(note)
        # A raised flag is published before any other computation, because receivers stop arms.
        self._detector = ContactDetector(model, parameters, self._raise_flag, surface)
        rehearse_detector(model, parameters)
        self._checks.configure(self._detector)
        self.output.configure(self._detector, self.parameters.frame_prefix)
        self._model_error = ""
        self._input = self._make_input()
        self._grasped.configure(joint)

    def cleanup(self) -> None:
        """Destroy the joint-state subscription and the publishers of ``~/tool_wrench``."""
        self._grasped.cleanup()
        self._input.destroy()
        self.output.cleanup()

    def activate(self) -> None:
        """Reset the counts of samples, and start the checks of the model and of ``effort_kind``."""
        self._checks.activate(self.parameters.start_check_time)
        self._counts = VerdictCounts()

    def deactivate(self) -> None:
        """End the verdict, reset the detector, and publish the release of an open contact.

        The tare is kept.
        """
        self._checks.end()
        self._on_silence()
        self._reset()

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has it
        """End the verdict, so that the last verdict is not repeated after a failure.

        A failure while a joint state is processed also resets the detector, whose memory may be
        half updated. A failure after the flag was published (``name`` is :data:`REPORT`) does not
        make the verdict wrong, so that it stays.
        """
        if not self.is_active or name == REPORT:
            return
        self._on_silence()
        if name == SAMPLES:
            self._reset()

    # Parameters --------------------------------------------------------------------------------

    def check_parameters(self, new: ContactDetectorParameters) -> None:
        """Check that parameters fit the arm.

        Raises:
            ParameterError: for a per-joint parameter or a ``residual_covariance`` with the wrong
                number of values.
            InputError: for a link or a frame that the arm lacks, for a ``force_link`` or a
                ``tool_frame`` that is fixed to the world, and for a payload that no body can have.
        """
        ContactDetector(self.robot.with_parameters(new).model, self.robot.in_model_order(new))

    def parameters_changed(self) -> None:
        """Apply new parameters; an open contact, the tare and the residual are kept.

        The verdict and a contact end if ``check_effort_kind`` is switched on while the efforts
        contradict ``effort_kind``.
        """
        self.robot = self.robot.with_parameters(self.parameters)
        # Their code is loaded already: a rehearsal would interrupt the verdict, and the torque of a
        # controller in this process.
        self._detector.set_parameters(self._detector_parameters())
        self._detector.set_model(self.robot.model)
        self._checks.parameters_changed()
        if self._is_refuted:
            self._on_refuted_kind()

    def _detector_parameters(self) -> ContactDetectorParameters:
        """Return the parameters in the order of the model, default thresholds filled in."""
        ordered = self.robot.in_model_order(self.parameters)
        return with_default_thresholds(ordered, self.robot.model)

    # Diagnostics -------------------------------------------------------------------------------

    @property
    def has_verdict(self) -> bool:
        """Whether there is a verdict (contact or no contact) younger than :data:`SILENCE`."""
        return self.flag.value is not None and time.monotonic() - self._judged <= SILENCE

    def _missing(self, detection: Detection | None) -> str:
        """Return the reason why there is no verdict.

        Args:
            detection: the last detection; None if there was none since the last verdict ended.
        """
        if self._model_error:
            return self._model_error
        if detection is not None and not detection.valid:
            return detection.reason + REMEDIES.get(detection.reason, "")
        if self._has_judged and self._is_late:
            return "joint states waited while the node was paused or busy"
        return f"no joint states were judged for {SILENCE:g} s"

    def _report(self, status: Status) -> None:
        detection = self._detector.complete() if self._has_judged else None
        status.add("valid", self.has_verdict)
        if not self.is_active:
            return
        self._checks.report(status)
        joints = self.robot.model.joint_names
        for joint, threshold in zip(joints, self._detector.contact_threshold, strict=True):
            status.add(f"{THRESHOLD}{joint} [N·m]", float(threshold))
        for joint, tared in zip(joints, self._detector.bias, strict=True):
            status.add(f"tare {joint} [N·m]", float(tared))
        if first := self._counts.first_verdict():
            self.get_logger().info(first)
        if not self.has_verdict:
            # The input logs why no joint states come.
            is_logged = bool(self._model_error) or detection is None
            status.raise_to(WARN, f"no verdict: {self._missing(detection)}", is_logged=is_logged)
        if detection is None:
            return
        self._counts.report(status, self.has_verdict)
        status.add("contact", detection.contact)
        status.add("level", detection.level)
        for joint, torque in zip(joints, detection.residual, strict=True):
            status.add(f"residual {joint} [N·m]", float(torque))
        self.output.report(status)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or the node itself ends it; return its exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run(ContactDetectorNode, args)


if __name__ == "__main__":
    sys.exit(main())
