"""Recordings where the package rosbags is not installed, as with a released ROS package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rbd_control.errors import RecordingError
from rbd_control.playback import ros_storage
from rbd_control.playback.ros_storage import RosStorage

ROOT = Path(__file__).resolve().parent.parent
BAG = ROOT / "test" / "data" / "push20_link7"

READ = """
import sys
blocked = sys.argv[2].split(",")

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Missing())
from pathlib import Path
from rbd_control.cli.guard import guarded
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback.recording import read_recording

def read():
    recording = read_recording(Path(sys.argv[1]))
    print(sum(1 for _ in recording.samples(JointStateIntake(recording.joint_names))))
    return 0

sys.exit(guarded(read, debug=False))
"""


def read(path: Path, *blocked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", READ, str(path), ",".join(blocked)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_plain_recordings_need_ros_or_rosbags() -> None:
    """Without rosbags rclpy decodes joint states; without both the error says so."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    whole = read(BAG, "none")
    assert int(whole.stdout) > 1000, whole.stderr
    assert read(BAG, "rosbags").stdout == whole.stdout
    neither = read(BAG, "rosbags", "rclpy")
    assert neither.returncode == 2
    assert "needs the package rosbags, or ROS 2: pip install rosbags" in neither.stderr
    assert neither.stderr.count("\n") == 1


class Reader:
    """Stand-in for ``rosbag2_py.SequentialReader`` with the used functions."""

    messages = ((b"first", 5), (b"second", 7), (b"third", 9))

    def open(self, storage: SimpleNamespace, converter: SimpleNamespace) -> None:
        assert storage.storage_id == "mcap"
        assert converter.formats == ("", "")
        self.left = list(self.messages)

    def get_metadata(self) -> SimpleNamespace:
        topic = SimpleNamespace(
            name="/joint_states", type="sensor_msgs/msg/JointState", serialization_format="cdr"
        )
        counted = SimpleNamespace(topic_metadata=topic, message_count=3)
        return SimpleNamespace(topics_with_message_count=[counted])

    def set_filter(self, wanted: SimpleNamespace) -> None:
        assert wanted.topics == ["/joint_states"]

    def has_next(self) -> bool:
        return bool(self.left)

    def read_next(self) -> tuple[str, bytes, int]:
        raw, time = self.left.pop(0)
        return "/joint_states", raw, time


@pytest.fixture
def rosbag2_py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the package, which only an installed ROS has."""
    module = ModuleType("rosbag2_py")
    module.SequentialReader = Reader  # type: ignore[attr-defined]
    module.StorageOptions = SimpleNamespace  # type: ignore[attr-defined]
    module.ConverterOptions = lambda *formats: SimpleNamespace(formats=formats)  # type: ignore[attr-defined]
    module.StorageFilter = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rosbag2_py", module)


@pytest.mark.usefixtures("rosbag2_py")
def test_a_file_that_ros_reads() -> None:
    storage = RosStorage(Path("bag.mcap"))
    assert storage.topics["/joint_states"].messages == 3
    packed = list(storage.packed("/joint_states", 2))
    assert [len(each.times) for each in packed] == [2, 1]
    found = [message for each in packed for message in each.messages()]
    assert found == [(time, raw) for raw, time in Reader.messages]


def test_no_decoder_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rosbags.typesys", "rclpy.serialization"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RecordingError, match="pip install rosbags"):
        ros_storage.joint_state_decoder()
