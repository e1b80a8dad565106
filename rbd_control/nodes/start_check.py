"""Check of the first seconds of motion of a detector node, and its status in ``/diagnostics``.

The check is computed in slices between samples, so that it does not delay verdicts.
"""

from __future__ import annotations

import time
from collections.abc import Generator

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.timer import Timer

from rbd_control.check.findings import Level
from rbd_control.check.live import StartCheck
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JointSample
from rbd_control.nodes.diagnostics import ERROR, OK, WARN, Durations, Status
from rbd_control.nodes.guarded_node import GuardedNode

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
        self, node: GuardedNode, model: Model, parameters: DetectorParameters, seconds: float
    ) -> None:
        self._node, self.seconds = node, seconds
        self._check = StartCheck(model, parameters, seconds)
        self._slices: Generator[None, None, None] | None = None
        self._taken = Durations()
        self._failure = ""
        self._timer: Timer | None = None
        if seconds > 0.0:
            self._timer = node.create_timer(PERIOD, self._go_on, clock=node.steady)

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
