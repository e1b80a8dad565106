"""A second run over a fleet: its own tables are no recordings, and changed meshes are noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from damage import sound

from rbd_control.cli.main import main
from rbd_control.fleet.jobs import CalibrateJob, ReplayJob, Source, job_keys


def test_the_tables_of_a_fleet_are_no_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results lie beside the recordings."""
    (tmp_path / "one.csv").write_text(sound.csv_text(sound.swing(1.2)))
    (tmp_path / "two.urdf").write_text(sound.URDF)
    (tmp_path / "detector.yaml").write_text(sound.CONFIG)
    files = ["--urdf", str(tmp_path / "two.urdf"), "--config", str(tmp_path / "detector.yaml")]
    arguments = ["replay", str(tmp_path), *files, "--fleet", str(tmp_path), "--workers", "1"]
    assert main(arguments) == 0
    assert main(["fleet-report", str(tmp_path)]) == 0
    assert {path.stem for path in tmp_path.glob("*.csv")} > {"one", "replay", "arms"}
    capsys.readouterr()
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "1 recordings" in out
    assert "1 were done before" in out
    assert err == ""


@pytest.mark.parametrize("name", ["mesh.stl", "package://arm/mesh.stl"])
def test_a_changed_mesh_is_another_key(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "arm"
    folder.mkdir()
    solid = f"<collision><geometry><mesh filename='{name}'/></geometry></collision></link>"
    (folder / "two.urdf").write_text(sound.URDF.replace("</link>", solid, 1))
    (folder / "mesh.stl").write_bytes(bytes(84))
    recording = folder / "one.csv"
    recording.touch()
    source = Source(recording, str(folder / "two.urdf"))
    jobs: list[ReplayJob | CalibrateJob] = [ReplayJob(source), CalibrateJob(source)]
    keys = job_keys(jobs)
    assert job_keys(jobs) == keys
    os.utime(folder / "mesh.stl", (1.0, 1.0))
    assert not set(job_keys(jobs)) & set(keys)


def test_a_description_that_is_not_xml_has_a_key(tmp_path: Path) -> None:
    """The error about it belongs to the job."""
    (tmp_path / "odd.urdf").write_text("<robot")
    assert job_keys([ReplayJob(Source(tmp_path / "one.csv", str(tmp_path / "odd.urdf")))])
