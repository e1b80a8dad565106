"""Options of the commands for recordings: what is ambiguous or incomplete is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from damage import sound

from rbd_control.cli.main import main
from rbd_control.errors import RecordingError
from rbd_control.playback.truth import read_labels


def labelled(folder: Path, name: str) -> Path:
    path = folder / "labels.csv"
    path.write_text(f"recording, begin, end\n{name}, 0.4, 0.6\n")
    return path


def calibrate(folder: Path, *more: str) -> int:
    """Calibrate the arm of two joints from its contact-free motion."""
    (folder / "two.urdf").write_text(sound.URDF)
    (folder / "log.csv").write_text(sound.csv_text(sound.swing(22.0, 100.0)))
    files = ["--urdf", str(folder / "two.urdf"), "--out", str(folder / "arm.yaml")]
    return main(["calibrate", str(folder / "log.csv"), *files, *more])


@pytest.mark.parametrize("name", ["a.csv"])
def test_a_label_whose_name_fits_two_recordings_is_refused(tmp_path: Path, name: str) -> None:
    labels = labelled(tmp_path, name)
    with pytest.raises(RecordingError, match=r"line 2: .* \(x/a.csv, y/a.csv\); name one by its"):
        read_labels(labels, [Path("x/a.csv"), Path("y/a.csv")])


def test_a_path_is_not_ambiguous(tmp_path: Path) -> None:
    first, second = read_labels(labelled(tmp_path, "a.csv"), [Path("y/a.csv"), Path("a.csv")])
    assert not first
    assert second
    # Another recording's name does not matter.
    first, *_ = read_labels(labelled(tmp_path, "b"), [Path("b"), Path("x/a.csv"), Path("y/a.csv")])
    assert first


def test_a_trusted_effort_kind_is_trusted_by_the_nodes_too(tmp_path: Path) -> None:
    sections = []
    for more in ([], ["--trust-effort-kind"]):
        assert calibrate(tmp_path, "--gain", "50", *more) == 0
        content = yaml.safe_load((tmp_path / "arm.yaml").read_text())
        sections.append(content["contact_detector"]["ros__parameters"])
    assert "check_effort_kind" not in sections[0]
    assert sections[1]["check_effort_kind"] is False
