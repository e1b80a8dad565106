"""Sources of the arms that a page shows: interface for live arms, and recordings."""

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
"""Topic of a recording from which the controller's position errors are read."""


class Source(Protocol):
    """Interface of one arm, live or recorded, that a page shows.

    Attributes:
        name: name of the arm on the page.
    """

    name: str

    @property
    def scene(self) -> Scene | None:
        """Geometry of the arm; None while its description is unknown."""

    def state(self) -> ArmState:
        """Return the present state of the arm.

        A live arm also processes the messages that have arrived since the last call.
        """

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return the residuals of the last :data:`~rbd_control.view.state.WINDOW` seconds.

        Returns:
            Names of the n joints; times, (k,) [s], on the clock of ``ArmState.time``; and signed
            ratios of residual to threshold, (k, n).
        """


class RecordingSource:
    """A recording processed by the detector; the playhead selects the time that is shown.

    :meth:`of` makes a source from a recording.

    Attributes:
        name: name of the arm on the page.
        scene: geometry of the arm.
        track: positions, residuals, verdicts and events of the recording, as frames for the page.
        playhead: position of the playback, initially at the start of the recording.
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
        """Run the detector over a recording, as ``rbd-control replay`` does, and return its source.

        The controller's position errors are read from the topic :data:`TRACKING_ERROR`, unless the
        recording is a CSV file or lacks this topic. ``replay`` below is
        :func:`rbd_control.playback.replay.replay`.

        Args:
            recording: the recording; its file name becomes the name of the arm.
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
        """Return the state of the arm at the time of the playhead."""
        return self.track.at(self.playhead.time)

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return the residuals of the last seconds before the playhead, as for :class:`Source`."""
        return (self.track.joints, *self.track.history(self.playhead.time))
