"""``rbd-control calibrate --effort current``: gains with errors, or advice to identify them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from bench.gains.__main__ import main as bench
from bench.gains.arm import JOINTS, Specimen
from bench.gains.study import MASS
from bench.gains.study import OFF_AXIS as CENTRE
from rbd_control.cli.main import main

SPECIMEN = Specimen.drawn(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """URDF, free motion and motion with payload of one arm."""
    folder = tmp_path_factory.mktemp("drives")
    bench(["--record", str(folder), "--seed", "1"])
    return folder


def run(folder: Path, out: Path, *more: str) -> int:
    """Calibrate from the free motion."""
    files = [str(folder / "free.csv"), "--urdf", str(folder / "ur10e.urdf"), "--out", str(out)]
    return main(["calibrate", *files, *more])


def test_a_known_payload_identifies_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gains with their errors are printed and stand in JSON and in the parameter file."""
    out = tmp_path / "arm.yaml"
    carried = f"{folder / 'load.csv'}={MASS}±0.02@{CENTRE[0]},{CENTRE[1]},{CENTRE[2]}"
    more = ["--payload-recording", carried, "--json", str(tmp_path / "found.json")]
    assert run(folder, out, "--effort", "current", *more) == 0
    assert "standard error" in capsys.readouterr().out
    text = out.read_text()
    written = yaml.safe_load(text)["/**"]["ros__parameters"]
    found = json.loads((tmp_path / "found.json").read_text())
    assert written["effort_kind"] == found["effort_kind"] == "current"
    np.testing.assert_allclose(written["effort_gain"], SPECIMEN.gains, rtol=0.05)
    for joint, gain, true in zip(JOINTS, written["effort_gain"], SPECIMEN.gains, strict=True):
        one = found["drive_gains"][joint]
        assert one["gain"] == pytest.approx(gain, rel=1e-4)
        assert one["gain"] == found["joints"][joint]["effort_gain"]
        error = written["effort_gain_error"][JOINTS.index(joint)]
        assert error == pytest.approx(one["standard_error"] / abs(one["gain"]), rel=1e-3)
        assert abs(one["gain"] - true) < 3.0 * one["standard_error"] < 0.15 * true
        assert f"#   {joint}: {one['gain']:.4g} ± {one['standard_error']:.2g} (" in text
