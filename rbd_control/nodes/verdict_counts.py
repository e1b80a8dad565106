"""Counts of samples with and without a verdict, for the diagnostics."""

from __future__ import annotations

from rbd_control.estimation import REASONS, Detection, Verdict
from rbd_control.nodes.diagnostics import WARN, Status


class VerdictCounts:
    """Counts samples without a verdict and dropped samples, each by its reason.

    A sample is dropped if it is implausible; the previous verdict then stays, until three samples
    in a row are dropped, or one of them is later than ``maximum_gap`` after the last accepted
    sample. :data:`~rbd_control.estimation.REASONS` lists the reasons.
    """

    def __init__(self) -> None:
        self._samples = 0
        self._reasons, self._drops = [0] * len(REASONS), [0] * len(REASONS)
        self._dropped = ""

    def add(self, verdict: Verdict, detection: Detection | None) -> None:
        """Count one sample.

        Args:
            verdict: the verdict of the detector on the sample.
            detection: the verdict with link, force and the text of the reasons; None if it was not
                computed, which is the case only for samples that were not dropped.
        """
        self._samples += 1
        self._reasons[verdict.reason_code] += 1
        if detection is not None and detection.dropped:
            self._drops[detection.dropped_code] += 1
            self._dropped = detection.dropped

    def report(self, status: Status) -> None:
        """Add the counts to a status; samples dropped since the last report are a warning."""
        status.add("samples", self._samples)
        status.add("valid samples", self._reasons[0])
        rows = zip(REASONS[1:], self._reasons[1:], self._drops[1:], strict=True)
        for reason, lost, dropped in rows:
            status.add(f"without verdict: {reason}", lost)
            status.add(f"dropped: {reason}", dropped)
        if self._dropped:
            status.raise_to(WARN, f"samples dropped: {self._dropped}")
            self._dropped = ""
