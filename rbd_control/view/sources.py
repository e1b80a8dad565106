"""Sources of a page: live arms and recordings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.result import ReplayResult
from rbd_control.robot.surface import NO_SURFACE, Surface
from rbd_control.view.playhead import Playhead
from rbd_control.view.scene import Scene
from rbd_control.view.state import ArmState
from rbd_control.view.track import Track, TrackRecorder, tracking_errors

Array = NDArray[np.float64]


TRACKING_ERROR = "/passivity_controller/tracking_error"
"""Topic of the controller's errors in a recording."""


class Source(Protocol):
    """One arm, live or recorded.

    Attributes:
        name: name of the arm on the page.
    """

    name: str

    @property
    def scene(self) -> Scene | None:
        """Geometry of the arm; None while its description is unknown."""

    def state(self) -> ArmState:
        """Return the present state of the arm."""

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return joints, times (k,) [s] and residual ratios (k, n) of the last seconds."""


class RecordingSource:
    """A recording processed by the detector; the playhead selects the time that is shown.

    Attributes:
        name: name of the arm on the page.
        scene: geometry of the arm.
        track: the frames of the recording.
        playhead: position of the playback.
        result: result of the detector, as ``rbd-control replay`` reports it.
    """

    def __init__(self, name: str, scene: Scene, track: Track, result: ReplayResult) -> None:
        self.name, self.scene, self.track, self.result = name, scene, track, result
        self.playhead = Playhead(track.duration, [event.onset for event in track.events])

    @classmethod
    def of(
        cls,
        recording: Recording,
        scene: Scene,
        parameters: DetectorParameters,
        joints: Sequence[str] | None = None,
        surface: Surface = NO_SURFACE,
    ) -> RecordingSource:
        """Run the detector over a recording, as ``rbd-control replay`` does.

        Args:
            recording: the recording.
            scene: geometry of the arm.
            parameters: parameters of the detector, per-joint values in the model's order.
            joints: names of the model's joints in the recording, as for ``replay``.
            surface: points on the collision geometry of the links, as for ``replay``.

        Raises:
            RecordingError: as ``replay``.
            ParameterError: as ``replay``.
        """
        model: Model = scene.model
        recorder = TrackRecorder(model.joint_names)
        result = replay(
            recording, model, parameters, joints=joints, surface=surface, watch=recorder.add
        )
        track = recorder.track(result.events)
        with suppress(RecordingError):  # most recordings have none
            if recording.path.suffix.lower() != ".csv":
                errors = read_recording(recording.path, TRACKING_ERROR)
                track = replace(track, errors=tracking_errors(errors, recorder.start))
        return cls(recording.path.name, scene, track, result)

    def state(self) -> ArmState:
        """Return the state at the playhead."""
        return self.track.at(self.playhead.time)

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return joints, times (k,) [s] and residual ratios (k, n) before the playhead."""
        return (self.track.joints, *self.track.history(self.playhead.time))
