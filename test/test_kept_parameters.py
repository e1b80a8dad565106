"""``rbd-control calibrate`` over an arm file keeps the parameters that it does not identify."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from damage import sound

from rbd_control.cli.arm_file import Sections, kept_parameters, write_arm_file
from rbd_control.errors import ModelWarning, ParameterError
from rbd_control.identification import Calibration
from rbd_control.identification.threshold_calibration import START
from rbd_control.parameters import parameter_sections, read_parameter_file
from rbd_control.robot.robot import Robot

CALIBRATION = Calibration(START, (), 24.0, 1.0, (), ())

USERS: dict[str, dict[str, Any]] = {
    "/**": {"frame_prefix": "left/", "implausible_speed": 3.5, "use_sim_time": True},
    "contact_detector": {"tool_frame": "lower", "maximum_gap": 0.02, "check_effort_kind": False},
    "passivity_controller": {
        "gravity_compensated": True,
        "torque_share": [0.5, 0.9],
        "contact_reaction": "retract",
        "require_detector": True,
        "friction_velocity_scale": [0.3],
    },
    "contact_guard": {"services": ["/robot/stop"], "text": "1e5", "rate": 1e-7, "switch": "off"},
    "/left/contact_detector": {"maximum_gap": 0.5},
}
"""Parameters that calibrate does not identify, by section."""

STALE: dict[str, dict[str, Any]] = {
    "/**": {
        "urdf": "two.urdf",
        "gravity": [0, 0, -9.81],
        "joints": ["shoulder", "elbow"],
        "friction_coulomb": [9.0, 9.0],
    },
    "contact_detector": {"contact_threshold": [77.0], "observer": "momentum"},
}
"""Parameters that calibrate writes anew."""


def arm_file(folder: Path, *parts: dict[str, dict[str, Any]], name: str = "arm.yaml") -> Path:
    """Write an arm file with the parameters of all parts, and the URDF."""
    (folder / "two.urdf").write_text(sound.URDF)
    sections: dict[str, Any] = {}
    for part in parts:
        for section, values in part.items():
            sections.setdefault(section, {"ros__parameters": {}})["ros__parameters"] |= values
    (folder / name).write_text(json.dumps(sections))
    return folder / name


def calibrated(out: Path, urdf: Path) -> tuple[Sections, list[str]]:
    """Write ``out`` as calibrate does; return the new sections and the warnings."""
    robot = Robot.load(urdf, node="contact_detector")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        kept = kept_parameters(out, str(urdf), robot, {})
    write_arm_file(out, CALIBRATION, [], robot, {}, kept)
    return parameter_sections(out), [str(each.message) for each in caught]


@pytest.mark.parametrize("urdf", ["arm.yaml", "two.urdf"])
def test_every_parameter_that_is_not_identified_is_kept(tmp_path: Path, urdf: str) -> None:
    """The file that ``--out`` names; with ``--urdf`` the same file, or the URDF."""
    out = arm_file(tmp_path, STALE, USERS)
    for _ in range(2):  # the second time over a file of calibrate
        sections, warned = calibrated(out, tmp_path / urdf)
        for section, values in USERS.items():
            known = sections[section,]
            assert {name: known[name] for name in values} == values
        assert warned == []
    assert sections["/**",]["friction_coulomb"] != [9.0, 9.0]
    assert sections["contact_detector",]["contact_threshold"] != [77.0]
    assert sections["contact_detector",]["observer"] == START.observer


def test_the_arm_file_of_the_option_urdf_is_kept_in_a_new_file(tmp_path: Path) -> None:
    given = arm_file(tmp_path, STALE, USERS)
    sections, _ = calibrated(tmp_path / "new.yaml", given)
    assert sections["passivity_controller",] == USERS["passivity_controller"]


def test_of_two_files_the_arm_file_of_the_option_urdf_wins(tmp_path: Path) -> None:
    """Sections with and without slash are the same, and former names are their present ones."""
    urdf = {"/**": {"urdf": "two.urdf"}}
    given = arm_file(
        tmp_path,
        urdf,
        {"passivity_controller": {"gravity_compensated": True, "implausible_speed": 4.0}},
        name="given.yaml",
    )
    out = arm_file(
        tmp_path,
        urdf,
        {"/passivity_controller": {"gravity_compensated": False, "speed_factor": 2.0}},
        {"contact_guard": {"rate": 3}},
    )
    sections, warned = calibrated(out, given)
    values = read_parameter_file(out, "passivity_controller")
    assert values["gravity_compensated"] is True
    assert values["implausible_speed"] == 4.0
    assert "speed_factor" not in values
    assert sections["contact_guard",] == {"rate": 3}
    assert len(warned) == 1
    assert warned[0].startswith("arm.yaml and the file given by --urdf have different values of")
    assert "gravity_compensated" in warned[0]


@pytest.mark.parametrize(
    "values",
    [
        {"payload_mass": 1.5},
        {"effort_gain": [-1.0]},
        {"locked_joints": ["elbow"], "locked_positions": [0.5]},
    ],
    ids=lambda values: next(iter(values)),
)
def test_an_arm_that_is_replaced_is_named(tmp_path: Path, values: dict[str, Any]) -> None:
    """The calibration computes with the arm that ``--urdf`` describes."""
    out = arm_file(tmp_path, {"/**": {"urdf": "two.urdf", **values}})
    _, warned = calibrated(out, tmp_path / "two.urdf")
    assert len(warned) == 1
    assert f"other values of {next(iter(values))} than the arm of --urdf" in warned[0]


@pytest.mark.parametrize(
    ("joints", "refused"),
    [(["elbow", "shoulder"], True), (["shoulder"], True), (["shoulder", "elbow"], False)],
)
def test_values_of_other_joints_are_refused(
    tmp_path: Path, joints: list[str], refused: bool
) -> None:
    """The torque limit of one joint must not become that of another."""
    limits = {"passivity_controller": {"torque_share": [0.5, 0.9][: len(joints)] * 2}}
    if not refused:
        limits = {"passivity_controller": {"torque_share": [0.5, 0.9]}}
    out = arm_file(tmp_path, {"/**": {"joints": joints}}, limits)
    before = out.read_bytes()
    if not refused:
        sections, _ = calibrated(out, tmp_path / "two.urdf")
        assert sections["passivity_controller",]["torque_share"] == [0.5, 0.9]
        return
    with pytest.raises(ParameterError, match="value of torque_share for each joint") as caught:
        calibrated(out, tmp_path / "two.urdf")
    assert caught.value.path == str(out)
    assert out.read_bytes() == before


def test_sections_of_namespaces_are_kept(tmp_path: Path) -> None:
    """And parameters that override identified ones there are named."""
    out = arm_file(tmp_path, {"/**": {}})
    inner = {"contact_detector": {"ros__parameters": {"contact_threshold": [1.0]}}}
    out.write_text(json.dumps({"left": inner | {"a": {"ros__parameters": {"x": 1}}}}))
    sections, warned = calibrated(out, tmp_path / "two.urdf")
    assert sections["left", "contact_detector"] == {"contact_threshold": [1.0]}
    assert sections["left", "a"] == {"x": 1}
    assert len(warned) == 1
    assert "contact_threshold (left/" in warned[0]
