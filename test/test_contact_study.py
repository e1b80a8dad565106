"""The contact study: true values, recordings, and evaluation of the detector."""

from pathlib import Path

import numpy as np
import pytest
from robots import urdf_path

from bench.contacts.episode import Episode

pytest.importorskip("mujoco")

from bench.contacts.arms import arm
from bench.contacts.bag import write_recording
from bench.contacts.episode import simulate
from bench.contacts.plant import Plant
from bench.contacts.study import judge
from bench.contacts.tables import named, targets
from bench.contacts.touch import draw, end_of
from rbd_control.dynamics import frame_jacobian, frame_placement
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback.recording import read_recording


@pytest.fixture(scope="module")
def episode() -> Episode:
    urdf_path("panda")
    touches = draw(4, rounds=1, first=0.5)
    return simulate(Plant(arm("panda"), 1), 5, end_of(touches), touches)


def test_true_torque_is_that_of_the_force_at_its_point(episode: Episode) -> None:
    assert [contact.kind for contact in episode.contacts] == ["push", "push", "collision"]
    for contact in episode.contacts:
        k = round(contact.start / 0.001)
        force, q = episode.force[k], episode.q[k]
        J = frame_jacobian(episode.arm.model, q, contact.link)
        lever = frame_placement(episode.arm.model, q, contact.link)[:3, :3] @ contact.point
        torque = J[:3].T @ np.cross(lever, force) + J[3:].T @ force
        # An obstacle touches the ball about the point, not the point, and slides along it.
        tolerance = 1e-3 if contact.kind == "push" else 0.1
        assert np.abs(torque - episode.external[k]).max() < tolerance * np.linalg.norm(force)
        assert np.linalg.norm(contact.force) > 0.0
        assert not episode.external[k - 1].any()


def test_measurements_are_the_dynamics_with_wrong_masses_and_friction(episode: Episode) -> None:
    assert episode.t.size == episode.q.shape[0]
    count = 2.0 * np.pi / 2**19
    # Whole counts, to the rounding of a product.
    assert np.abs(episode.q / count - np.round(episode.q / count)).max() < 1e-6
    again = simulate(Plant(episode.arm, 1), 5, 0.2)
    np.testing.assert_array_equal(again.q, episode.q[:200])
    other = simulate(Plant(episode.arm, 2), 5, 0.2)
    assert np.abs(other.tau - again.tau).max() > 0.1


def test_recording_reads_back(episode: Episode, tmp_path: Path) -> None:
    write_recording(tmp_path / "bag", [episode])
    recording = read_recording(tmp_path / "bag")
    assert recording.joint_names == episode.arm.model.joint_names
    samples = list(recording.samples(JointStateIntake(recording.joint_names)))
    np.testing.assert_array_equal([s.tau for s in samples], episode.tau)
    assert recording.true_contacts is not None
    pairs = zip(recording.true_contacts, episode.contacts, strict=True)
    for (start, end), contact in pairs:
        # Stamps of 1.7e9 s are good to 0.2 µs.
        assert start - samples[0].stamp == pytest.approx(contact.start, abs=1e-6)
        assert end - samples[0].stamp == pytest.approx(contact.end, abs=1e-6)


def test_the_detector_meets_its_targets_on_a_few_contacts() -> None:
    """The targets of ``python -m bench.contacts``, on one arm and 16 contacts.

    With so few contacts, shares are uncertain by about a tenth: the targets of 95 and 70 % of the
    links apply to the study of 200 contacts. All other targets apply here, too.
    """
    urdf_path("panda")
    outcome = judge(["panda"], seed=7, rounds=6)
    assert len(outcome.verdicts) == 16
    missed = [target for target in targets(outcome) if not target.met]
    assert all(target.text.startswith("link") for target in missed), missed
    among, alone = named(outcome.verdicts)
    assert among >= 0.8
    assert alone >= 0.5
