"""The statements and examples of the README and of the example files hold."""

import re
from collections import ChainMap
from pathlib import Path

import pytest

from rbd_control.cli import guard
from rbd_control.cli.main import main
from rbd_control.control import ControllerParameters
from rbd_control.dynamics import urdf
from rbd_control.dynamics.urdf import MAX_ELEMENTS
from rbd_control.estimation import DetectorParameters
from rbd_control.files import yaml_input
from rbd_control.node_parameters import NODE_PARAMETERS
from rbd_control.parameters import Parameters, read_parameter_file
from rbd_control.playback.csv_lines import MAX_LINE
from rbd_control.playback.labels import MAX_LABELS
from rbd_control.playback.mcap_chunks import MAX_CHUNK
from rbd_control.playback.packed import MAX_MESSAGE
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import SimulationParameters

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_first_screen_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert printed == code.rsplit("# ", 1)[1].strip()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    ("node", "parameters", "of_the_node"),
    [
        ("contact_detector", (DetectorParameters, RobotParameters), ()),
        ("passivity_controller", (ControllerParameters, RobotParameters), ()),
        (
            "simulated_arm",
            (SimulationParameters, RobotParameters),
            ("lockstep", "lockstep_timeout", "push_timeout"),
        ),
    ],
)
def test_examples_hold_the_defaults_they_claim(
    node: str, parameters: tuple[type[Parameters], ...], of_the_node: tuple[str, ...]
) -> None:
    values = read_parameter_file(ROOT / "config" / f"{node}.yaml", node)
    default = ChainMap(*(vars(law()) for law in parameters))
    for name, value in values.items():
        if name in NODE_PARAMETERS or name in of_the_node:
            continue
        expected = default[name]
        assert (list(expected) if isinstance(expected, tuple) else expected) == value, name


def test_limits_and_exit_codes_on_the_page_of_replay() -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    for limit in (MAX_MESSAGE, MAX_CHUNK, MAX_LINE, MAX_LABELS, MAX_ELEMENTS):
        assert f"{limit:,}" in page, limit
    assert f"{yaml_input.MAX_BYTES / 1e6:g} MB, {yaml_input.MAX_DEPTH} levels" in page
    assert f"{urdf.MAX_DEPTH} levels, {urdf.MAX_JOINTS} joints" in page
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    stated = (0, guard.NO_RESULT, guard.BAD_INPUT, guard.INTERNAL_ERROR, guard.INTERRUPTED)
    assert [int(code) for code in codes] == [*stated, guard.BROKEN_PIPE]
    assert f"at most {guard.MESSAGE_LENGTH} characters beyond the path" in " ".join(page.split())


def test_options_on_the_page_of_replay_exist(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    known = ""
    for command in ("replay", "calibrate"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        known += capsys.readouterr().out
    for option in set(re.findall(r"--[a-z][a-z-]+", page)):
        assert option in known, option
