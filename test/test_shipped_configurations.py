"""The configurations that ship, on the recordings they were made for."""

import re
from pathlib import Path

import numpy as np
import pytest
from robots import shared_data

from rbd_control.cli.main import main
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay

CONFIG = Path(__file__).resolve().parent.parent / "config"


def run(recording, config):
    path = shared_data(recording)
    model = Model.from_urdf(shared_data("panda_arm.urdf"))
    parameters = DetectorParameters.from_yaml(config, "contact_detector", ignore=("joints",))
    return replay(read_recording(path), model, parameters)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """What calibrate makes of the two recordings without contact."""
    out = tmp_path_factory.mktemp("calibrated") / "detector.yaml"
    free = [str(shared_data(f"sim_free_{k}")) for k in (1, 2)]
    urdf = str(shared_data("panda_arm.urdf"))
    assert main(["calibrate", *free, "--urdf", urdf, "--out", str(out)]) == 0
    return out


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
@pytest.mark.parametrize("config", [CONFIG / "panda_mujoco.yaml", "calibrated"])
def test_simulated_panda(recording, contacts, config, request):
    """Every contact found within 20 ms, its link named, and no other event.

    With the configuration that ships, and with what calibrate makes of free motion alone.
    """
    if config == "calibrated":
        config = request.getfixturevalue(config)
    result = run(recording, config)
    assert result.warnings == ()
    assert len(result.events) == len(contacts)
    for event, (onset, link) in zip(result.events, contacts, strict=True):
        assert 0.0 < event.detected - onset < 0.020
        assert abs(event.onset - onset) < 0.010
        assert link in (event.link, None)


def test_real_panda():
    """24 s at 30 Hz without contact."""
    result = run("panda_exciting_trajectory.db3", CONFIG / "panda_franka.yaml")
    assert result.events == ()
    # At that rate no observer is fast, and replay says so.
    assert all("noticed late" in warning for warning in result.warnings)
    assert max(joint.rms for joint in result.residuals) < 0.25


def test_identification_explains_most_of_a_real_arm(capsys, tmp_path):
    """The RMS residual of docs/detection.md, joint by joint, from 24 s of a real Panda."""
    recording = str(shared_data("panda_exciting_trajectory.db3"))
    out, urdf = str(tmp_path / "detector.yaml"), str(shared_data("panda_arm.urdf"))
    assert main(["calibrate", recording, "--urdf", urdf, "--out", out]) == 0
    rows = re.findall(
        r"panda_joint\d │ +([\d.]+) │ +([\d.]+) │ +([\d.]+) │", capsys.readouterr().out
    )
    found = np.array(rows[:7], dtype=float)
    documented = [
        [0.50, 0.31, 0.33, 0.47, 0.44, 0.31, 0.27],
        [0.23, 0.12, 0.17, 0.18, 0.08, 0.07, 0.04],
        [0.17, 0.11, 0.13, 0.13, 0.08, 0.07, 0.05],
    ]
    # Half a digit of what is documented, and a little for other versions of the solver.
    np.testing.assert_allclose(found.T, documented, atol=0.01)
