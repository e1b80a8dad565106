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


def test_command(tmp_path: Path, urdf: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The node's own parameter file, whose joints are in another order than the model's."""
    log = write_csv(tmp_path / "log.csv", swing([(1.5, 2.0, 8.0)]))
    (tmp_path / "detector.yaml").write_text(CONFIG)
    report, outcome = tmp_path / "report", tmp_path / "out" / "replay.json"
    arguments = ["replay", str(log), "--urdf", urdf, "--config", str(tmp_path / "detector.yaml")]
    assert main([*arguments, "--report", str(report), "--json", str(outcome)]) == 0
    content = json.loads(outcome.read_text(encoding="utf-8"))
    assert [event["joint"] for event in content["events"]] == ["arm_elbow"]
    assert content["threshold"] == {"arm_shoulder": 3.0, "arm_elbow": 2.0}
    assert (report / "report.json").exists()
    assert (report / "residual.png").exists()
    out, err = capsys.readouterr()
    assert "contacts found" in out
    assert "arm_elbow" in out
    assert err == "", "no progress bar where nobody sees it"


BAD = {
    "no recording": (["nowhere", "--urdf", "{urdf}"], "nowhere: there is no such recording"),
    "unwritable": (["{log}", "--urdf", "{urdf}", "--json", "{log}/x.json"], "log.csv"),
}


@pytest.mark.parametrize(("arguments", "says"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path,
    urdf: str,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    log = write_csv(tmp_path / "log.csv", swing(duration=0.5))
    assert main(["replay", *(a.format(log=log, urdf=urdf) for a in arguments)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.startswith("rbd-control: ")
    assert err.count("\n") == 1
