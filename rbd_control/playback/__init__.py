"""Reading of recordings, replay through the detector, and reports, without ROS."""

from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import write_report
from rbd_control.playback.result import ReplayResult

__all__ = ["Recording", "ReplayResult", "read_recording", "replay", "write_report"]
