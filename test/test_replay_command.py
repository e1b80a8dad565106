"""The command ``rbd-control replay``: its arguments, tables, reports and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from swinging_arm import (
    LABELS,
    URDF,
    swing,
    write_csv,
)

from rbd_control.cli.main import main
from rbd_control.playback.measures import FACTORS


def test_command_with_several_recordings(
    tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = [
        str(write_csv(tmp_path / f"{name}.csv", swing(push)))
        for name, push in (("pushed", [(1.5, 2.0, 8.0)]), ("free", []))
    ]
    (tmp_path / "labels.csv").write_text(LABELS + "pushed, 1.5, 2.0, lower, 14\n")
    (tmp_path / "detector.yaml").write_text(CONFIG)
    report = tmp_path / "report"
    arguments = ["replay", *logs, "--urdf", urdf, "--config", str(tmp_path / "detector.yaml")]
    arguments += ["--report", str(report)]
    labelled = [*arguments, "--labels", str(tmp_path / "labels.csv"), "--curve"]
    assert main(labelled) == 0
    content = json.loads((report / "report.json").read_text(encoding="utf-8"))
    assert list(content) == ["recordings", "summary"]
    pushed, free = content["recordings"]
    assert len(pushed["truth"]["contacts"]) == pushed["truth"]["summary"]["link_named"] == 1
    assert free["truth"]["contacts"] == []
    assert content["summary"]["recordings"] == 2
    truth = content["summary"]["truth"]
    assert (truth["contacts"], truth["misses"], truth["links"]) == (1, 0, 1)
    assert [point["factor"] for point in truth["curve"]] == list(FACTORS)
    pictures = {path.name for path in report.glob("*.png")}
    assert pictures == {"curve.png", "residual_1_pushed.png", "residual_2_free.png"}
    out = capsys.readouterr().out
    assert "link right in 100%" in out
    assert "scores with scaled thresholds" in out
    assert main([*arguments, "--curve"]) == 2
    assert "--labels" in capsys.readouterr().err


@pytest.fixture
def urdf(tmp_path: Path) -> str:
    (tmp_path / "two.urdf").write_text(URDF)
    return str(tmp_path / "two.urdf")


CONFIG = """
/**:
  ros__parameters:
    use_sim_time: false
contact_detector:
  ros__parameters:
    joints: [arm_elbow, arm_shoulder]
    contact_threshold: [2.0, 3.0]
    collision_threshold: [20.0]
"""
