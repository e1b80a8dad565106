"""The state of a passivity controller as its topics report it, for ``rbd-control view``."""

from __future__ import annotations

import math
import time

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from sensor_msgs.msg import JointState

from rbd_control.nodes.detector_listener import Topic
from rbd_control.results import LONGEST
from rbd_control.wording import shortened

SILENCE = 3.0
"""Age above which diagnostics are ignored [s]; they are published once a second."""

LATE = 0.5
"""Age above which a tracking error is ignored [s]; it is published with each joint state."""

_MOST_VALUES = 1000


class ControllerListener:
    """Stores mode, energies and tracking error of a controller from its messages.

    A value that is unknown or out of date is an empty text or NaN.

    Args:
        controller: full name of the controller's node, which begins with a slash.
    """

    def __init__(self, controller: str) -> None:
        self._controller = controller
        self._reported = self._tracked = -math.inf
        self._values: dict[str, str] = {}
        self._error = math.nan

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Topics to subscribe to, with the methods that take their messages."""
        return (
            Topic(JointState, f"{self._controller}/tracking_error", self.on_tracking_error),
            Topic(DiagnosticArray, "/diagnostics", self.on_diagnostics, only_newest=False),
        )

    @property
    def has_heard(self) -> bool:
        """Whether a message of the controller was ever received."""
        return math.isfinite(self._reported) or math.isfinite(self._tracked)

    @property
    def mode(self) -> str:
        """Mode: hold, follow, float or safe; empty if unknown or older than :data:`SILENCE`."""
        return shortened(self._fresh().get("mode", ""), LONGEST)

    @property
    def storage(self) -> float:
        """Energy stored in tracking errors [J]; NaN if unknown or older than :data:`SILENCE`."""
        return self._number("storage [J]")

    @property
    def tank(self) -> float:
        """Level of the energy tank [J]; NaN without a tank, or if older than :data:`SILENCE`."""
        return self._number("tank [J]")

    @property
    def tracking_error(self) -> float:
        """Largest absolute position error [rad or m]; NaN if older than :data:`LATE`."""
        return self._error if time.monotonic() - self._tracked < LATE else math.nan

    def on_tracking_error(self, message: JointState) -> None:
        """Store the largest absolute position error; ignore an empty or non-finite message."""
        errors = [abs(float(x)) for x in message.position]
        if errors and all(map(math.isfinite, errors)):
            self._error, self._tracked = max(errors), time.monotonic()

    def on_diagnostics(self, message: DiagnosticArray) -> None:
        """Store mode and energies of the controller; ignore the statuses of other nodes."""
        for status in message.status:
            if f"/{status.name.lstrip('/')}" == self._controller:
                self._take(status)

    def _take(self, status: DiagnosticStatus) -> None:
        self._values = {item.key: item.value for item in status.values[:_MOST_VALUES]}
        self._reported = time.monotonic()

    def _fresh(self) -> dict[str, str]:
        return self._values if time.monotonic() - self._reported < SILENCE else {}

    def _number(self, key: str) -> float:
        try:
            return float(self._fresh().get(key, "nan"))
        except ValueError:
            return math.nan
