"""The configurations that ship, on the recordings they were made for."""

from pathlib import Path

import pytest
from robots import shared_data

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay

CONFIG = Path(__file__).resolve().parent.parent / "config"


def run(recording, config):
    path = shared_data(recording)
    model = Model.from_urdf(shared_data("panda_arm.urdf"))
    parameters = DetectorParameters.from_yaml(
        CONFIG / config, "contact_detector", ignore=("joints",)
    )
    return replay(read_recording(path), model, parameters)


@pytest.mark.parametrize(
    ("recording", "contacts"),
    [
        ("sim_free_1", []),
        ("sim_free_2", []),
        ("sim_push20_link7", [(2.274, "panda_link7")]),
        ("sim_push8_link4", [(3.350, "panda_link4")]),
        # The arm touches the obstacle again 46 ms before the recording ends, as its truth says;
        # which link that was cannot be told in so short a time.
        ("sim_hit_link5", [(2.849, "panda_link5"), (5.954, None)]),
    ],
)
def test_simulated_panda(recording, contacts):
    """Every contact found within 20 ms, its link named, and no other event."""
    result = run(recording, "panda_mujoco.yaml")
    assert result.warnings == ()
    assert len(result.events) == len(contacts)
    for event, (onset, link) in zip(result.events, contacts, strict=True):
        assert 0.0 < event.detected - onset < 0.020
        assert abs(event.onset - onset) < 0.010
        assert link in (event.link, None)


def test_real_panda():
    """24 s at 30 Hz without contact."""
    result = run("panda_exciting_trajectory.db3", "panda_franka.yaml")
    assert result.events == ()
    # At that rate no observer is fast, and replay says so.
    assert all("noticed late" in warning for warning in result.warnings)
    assert max(joint.rms for joint in result.residuals) < 0.25
