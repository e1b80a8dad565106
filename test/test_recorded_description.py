"""A recording with ``robot_description`` needs no ``--urdf``, in every format of a recording."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from damage import sound
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin

from rbd_control.cli.main import main
from rbd_control.errors import ModelError, RbdControlError
from rbd_control.playback.configuration import EffortOptions, arm_to_calibrate, configured_robot
from rbd_control.playback.recording import read_recording

TOPIC = "/robot_description"
MOTION = sound.swing(6.0)
MCAP, DB3 = StoragePlugin.MCAP, StoragePlugin.SQLITE3
Write = Callable[[Path], Path]


def bag(storage: StoragePlugin, mode: str = "") -> Write:
    """Return the writer of a rosbag2 folder."""
    compression = (CompressionMode[mode], CompressionFormat.ZSTD) if mode else None
    described = [(TOPIC, sound.URDF)]
    return lambda root: sound.write_bag(root / "bag", MOTION, storage, compression, described)


def split(root: Path) -> Path:
    """Write a recording of two files; the description, published once, is in the first."""
    half = MOTION.t.size // 2
    folder, names = root / "split", []
    folder.mkdir()
    for k, part in enumerate((slice(0, half), slice(half, None))):
        piece = sound.Motion(*(each[part] for each in vars(MOTION).values()))
        described = [] if k else [(TOPIC, sound.URDF)]
        one = sound.write_bag(root / f"split_{k}", piece, MCAP, None, described)
        names.append(f"split_{k}.mcap")
        (one / names[-1]).rename(folder / names[-1])
    files = f"rosbag2_bagfile_information: {{relative_file_paths: {json.dumps(names)}}}\n"
    (folder / "metadata.yaml").write_text(files)
    return folder


FORMATS: dict[str, Write] = {
    "ROS 1": lambda root: sound.write_ros1(root / "log.bag", MOTION, sound.URDF),
    "mcap": bag(MCAP),
    "db3": bag(DB3),
    "mcap file": lambda root: bag(MCAP)(root) / "bag.mcap",
    "mcap, chunks compressed": bag(MCAP, "STORAGE"),
    "mcap, file compressed": bag(MCAP, "FILE"),
    "db3, file compressed": bag(DB3, "FILE"),
    "mcap, messages compressed": bag(MCAP, "MESSAGE"),
    "db3, messages compressed": bag(DB3, "MESSAGE"),
    "split": split,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what ``check`` finds in the same motion if ``--urdf`` is given."""
    root = tmp_path_factory.mktemp("told")
    (root / "two.urdf").write_text(sound.URDF)
    path = sound.write_bag(root / "bag", MOTION)
    return found(path, root, "--urdf", str(root / "two.urdf"))


def found(path: Path, root: Path, *options: str) -> str:
    """Return the JSON of ``check``, without the name of the recording."""
    assert main(["check", str(path), "--json", str(root / "check.json"), *options]) != 2
    content = json.loads((root / "check.json").read_text())
    return json.dumps({key: value for key, value in content.items() if key != "recording"})


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS.keys())
def test_check_needs_no_urdf(write: Write, told: str, tmp_path: Path) -> None:
    assert found(write(tmp_path), tmp_path) == told


def test_the_description_of_the_namespace_comes_first(tmp_path: Path) -> None:
    """Descriptions are larger than joint states may be."""
    ours = sound.URDF + f"<!-- {'x' * 300_000} -->"
    described = [(TOPIC, "<robot/>"), ("/left/robot_description", ours)]
    path = sound.write_bag(tmp_path / "bag", MOTION, MCAP, None, described, "/left/joint_states")
    assert read_recording(path, "/left/joint_states").description == ours


REFUSED = {
    "none": ([[]], r"no arm: give --urdf FILE, .*; the recording has no topic /robot_description"),
    "two": ([[sound.URDF, "<robot/>"]], r"bag_0: has 2 different robot descriptions; .* --urdf"),
    "no URDF": ([["<robot/>"]], r"bag_0: robot 'robot' has no links"),
    "two recordings": (
        [[sound.URDF], [sound.URDF.replace("3", "4")]],
        r"bag_1: has another robot description than the recordings before it; give --urdf",
    ),
}


@pytest.mark.parametrize(("texts", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_description_that_is_missing_or_doubtful_is_refused(
    texts: list[list[str]], says: str, tmp_path: Path
) -> None:
    recordings = [
        read_recording(
            sound.write_bag(
                tmp_path / f"bag_{k}", MOTION, DB3, None, [(TOPIC, text) for text in each]
            )
        )
        for k, each in enumerate(texts)
    ]
    with pytest.raises(RbdControlError, match=says):
        configured_robot("", None, {}, recordings)
    with pytest.raises(RbdControlError, match=says):
        arm_to_calibrate("", {}, recordings, EffortOptions())


def test_the_files_of_the_command_come_first(tmp_path: Path) -> None:
    """The recording describes the arm only where no file does."""
    recording = read_recording(bag(MCAP)(tmp_path))
    calibrated = arm_to_calibrate("", {}, [recording], EffortOptions())
    assert calibrated.parameters.robot_description == sound.URDF, "for the arm file"
    config = tmp_path / "detector.yaml"
    config.write_text(sound.CONFIG)
    robot, parameters = configured_robot("", config, {}, [recording])
    assert robot.urdf == sound.URDF
    np.testing.assert_array_equal(parameters.contact_threshold, [3.0, 2.0])
    given = tmp_path / "heavy.urdf"
    given.write_text(sound.URDF.replace('mass value="3"', 'mass value="5"'))
    robot, _ = configured_robot(str(given), config, {}, [recording])
    assert robot.urdf == given.read_text() != sound.URDF
    with pytest.raises(ModelError, match="no such file"):
        configured_robot(str(tmp_path / "gone.urdf"), None, {}, [recording])


def test_the_next_command_needs_no_urdf_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had ``--urdf None``."""
    monkeypatch.chdir(tmp_path)
    path = sound.write_bag(tmp_path / "bag", sound.swing(22.0), descriptions=[(TOPIC, sound.URDF)])
    assert main(["check", str(path)]) == 0
    following = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert following[1:] == ["calibrate", str(path), "--out", "arm.yaml"]
    assert main(following[1:]) == 0
