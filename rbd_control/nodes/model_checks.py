"""Checks whether model, settings and efforts of a running detector fit the robot."""

from __future__ import annotations

from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticStatus

from rbd_control.estimation import (
    ContactDetector,
    EffortKindJudge,
    FitWatch,
    Mismatch,
    Verdict,
    detector_warnings,
)
from rbd_control.joint_states import JointSample
from rbd_control.nodes.diagnostics import ERROR, WARN, Status
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.start_check import StartCheckStatus

FIRST_SECONDS = 10.0
"""Duration of the samples by which model and robot are compared [s].

It begins with the activation, and again after new parameters, a tare or a reset.
"""


class ModelChecks:
    """Runs the checks of a detector node, and reports their findings in log and diagnostics.

    It checks the settings (:func:`~rbd_control.estimation.detector_warnings`), whether the efforts
    fit the parameter ``effort_kind`` (:mod:`~rbd_control.estimation.effort_kind`), whether model
    and robot agree (:class:`~rbd_control.estimation.FitWatch`), and the first seconds of motion
    (:class:`StartCheckStatus`).

    Args:
        node: the node.
        checks_kind: returns the parameter ``check_effort_kind``: whether ``effort_kind`` is
            checked.
        on_refuted: called when the efforts refute ``effort_kind``; no verdict is reliable then.

    Attributes:
        effort_kind: decides whether the parameter ``effort_kind`` fits the efforts.
    """

    effort_kind: EffortKindJudge

    def __init__(
        self, node: GuardedNode, checks_kind: Callable[[], bool], on_refuted: Callable[[], None]
    ) -> None:
        self._node, self._checks_kind, self._on_refuted = node, checks_kind, on_refuted
        self._start_check: StartCheckStatus | None = None
        self._fit: FitWatch | None = None
        self._mismatches: tuple[Mismatch, ...] = ()

    def configure(self, detector: ContactDetector) -> None:
        """Use this detector; log warnings about settings that disable or nearly disable detection.

        Call it before all other methods.
        """
        self._detector = detector
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
        if self._start_check is not None:
            self._start_check.end()

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
        self._fit, self._mismatches = FitWatch(FIRST_SECONDS), ()

    def add(self, sample: JointSample, verdict: Verdict | None) -> None:
        """Process a sample whose results were published.

        Args:
            sample: the sample.
            verdict: its verdict; None if the detector did not judge it, because ``effort_kind`` is
                refuted. The comparison of model and robot then leaves the sample out.
        """
        if self._start_check is not None:
            self._start_check.add(sample, verdict is not None and verdict.contact)
        if verdict is not None and self._fit is not None:
            self._compare(self._fit, sample)
        self._check_effort_kind(sample)

    def report(self, status: Status) -> None:
        """Add the findings to the diagnostics of the node.

        A refuted ``effort_kind`` is an error; doubtful settings and differences between model and
        robot are warnings.
        """
        if self._checks_kind():
            decision = self.effort_kind.decision
            if self.effort_kind.is_refuted:
                status.raise_to(ERROR, f"no verdict: {decision.text}")
            status.add("effort_kind", f"{decision.state}: {decision.text}")
        for warning in self._warnings:
            status.raise_to(WARN, warning)
        for mismatch in self._mismatches:
            status.raise_to(WARN, mismatch.text)

    def start_check_status(self) -> DiagnosticStatus | None:
        """Return the status ``check`` of the diagnostics.

        It is None before the first activation, and if the check is disabled.
        """
        return None if self._start_check is None else self._start_check.status()

    def _check_settings(self) -> None:
        """Warn about settings that disable or nearly disable detection."""
        self._warnings = detector_warnings(self._detector.parameters, self._detector.model)
        for warning in self._warnings:
            self._node.get_logger().warning(warning)

    def _compare(self, fit: FitWatch, sample: JointSample) -> None:
        """Compare model and robot once there are enough samples, and log the differences."""
        if sample.v is None or sample.tau is None:
            return
        if fit.add(sample.stamp, sample.q, sample.v, sample.tau):
            self._mismatches = fit.mismatches(self._detector)
            self._fit = None
            for mismatch in self._mismatches:
                self._node.get_logger().warning(f"if nothing touches the arm: {mismatch.text}")

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
