"""Checks that model, settings and efforts of a running detector fit the robot."""

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
"""Length of the motion after a start or new parameters on which the model is checked [s]."""


class ModelChecks:
    """Checks a detector's settings, the model, ``effort_kind`` and the first seconds of motion.

    Args:
        node: the node.
        checks_kind: returns the parameter ``check_effort_kind``.
        on_refuted: called when the efforts refute ``effort_kind``; no verdict is reliable then.

    Attributes:
        effort_kind: decides whether ``effort_kind`` fits the efforts.
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
        """Check the settings of a detector, and log warnings about them."""
        self._detector = detector
        self.effort_kind = EffortKindJudge(detector.model, detector.parameters)
        self._check_settings()

    def activate(self, seconds: float) -> None:
        """Start all checks of the arm's motion.

        Args:
            seconds: length of the motion for the status ``check`` [s]; 0 disables it.
        """
        self.restart_fit()
        model, parameters = self._detector.model, self._detector.parameters
        self.effort_kind = EffortKindJudge(model, parameters)
        self.end()
        self._start_check = StartCheckStatus(self._node, model, parameters, seconds)

    def end(self) -> None:
        """End the check of the first seconds; its findings stay in the diagnostics."""
        if self._start_check is not None:
            self._start_check.end()

    def parameters_changed(self) -> None:
        """Check the new parameters of the detector, and compare model and robot again."""
        self.effort_kind.set_parameters(self._detector.model, self._detector.parameters)
        self._check_settings()
        self.restart_fit()

    def restart_fit(self) -> None:
        """Discard the mismatches, and compare model and robot again from the next sample on."""
        self._fit, self._mismatches = FitWatch(FIRST_SECONDS), ()

    def add(self, sample: JointSample, verdict: Verdict | None) -> None:
        """Process a sample whose results were published.

        Args:
            sample: the sample.
            verdict: its verdict; None if it was not judged.
        """
        if self._start_check is not None:
            self._start_check.add(sample, verdict is not None and verdict.contact)
        if verdict is not None and self._fit is not None:
            self._compare(self._fit, sample)
        self._check_effort_kind(sample)

    def report(self, status: Status) -> None:
        """Add the findings to the diagnostics."""
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
        """Return the status ``check`` of the diagnostics; None before the first activation."""
        return None if self._start_check is None else self._start_check.status()

    def _check_settings(self) -> None:
        """Warn about settings that disable or nearly disable detection."""
        self._warnings = detector_warnings(self._detector.parameters, self._detector.model)
        for warning in self._warnings:
            self._node.get_logger().warning(warning)

    def _compare(self, fit: FitWatch, sample: JointSample) -> None:
        """Log once the differences between model and robot."""
        if sample.v is None or sample.tau is None:
            return
        if fit.add(sample.stamp, sample.q, sample.v, sample.tau):
            self._mismatches = fit.mismatches(self._detector)
            self._fit = None
            for mismatch in self._mismatches:
                self._node.get_logger().warning(f"if nothing touches the arm: {mismatch.text}")

    def _check_effort_kind(self, sample: JointSample) -> None:
        """Judge ``effort_kind``; if it is refuted, no verdict follows from the next sample on."""
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
