"""What people see: the output of the commands at 80 columns, and the next command."""

from __future__ import annotations

import re
import shlex
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest
from rich.console import Console
from robots import RECORDINGS, panda_arm_urdf

from rbd_control.cli import commands
from rbd_control.cli import main as command_line
from rbd_control.cli.fleet import _known_rates
from rbd_control.cli.main import main
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.estimation.thresholds import default_contact_thresholds
from rbd_control.identification.calibration import _percent
from rbd_control.identification.threshold_calibration import high_thresholds, worse_than_none
from rbd_control.playback.report import curve_table, scores
from rbd_control.playback.truth import Score, TrueContact, summarise
from rbd_control.reports.console import common_prefix, console_for_output, program
from rbd_control.reports.page import Row, Table

WIDTH = 80
CONFIG = Path(__file__).parent.parent / "config"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arm")
    (folder / "panda.urdf").write_text(panda_arm_urdf())
    for name in ("free", "push20_link7", "push8_link4", "collision_link4"):
        (folder / name).symlink_to(RECORDINGS / name)
    calibrated = (CONFIG / "panda_mujoco.yaml").read_text()
    (folder / "mujoco.yaml").write_text(calibrated)
    return folder


COMMANDS = {
    "check free --urdf panda.urdf": "calibrate free --urdf panda.urdf --out arm.yaml",
    "check push20_link7 --urdf panda.urdf": "ros2 bag record /joint_states -o free",
    "check free --urdf panda.urdf --config mujoco.yaml": (
        "replay free --urdf panda.urdf --config mujoco.yaml"
    ),
    "calibrate free --urdf panda.urdf --out made.yaml": "replay free --urdf made.yaml",
    "replay free push20_link7 --urdf panda.urdf": (
        "calibrate free --urdf panda.urdf --out arm.yaml"
    ),
    "replay push20_link7 push8_link4 collision_link4 --urdf panda.urdf": (
        "ros2 bag record /joint_states -o free"
    ),
    "replay push20_link7 free --urdf panda.urdf --config mujoco.yaml --curve": (
        "ros2 launch rbd_control contact_detector.launch.py params_file:=mujoco.yaml "
        "urdf:=panda.urdf"
    ),
    "replay free push20_link7 --urdf panda.urdf --fleet fleet": "fleet-report fleet",
    "export panda.urdf --functions gravity_torque --out panda.h": "cc -std=c99 -O2 -c panda.c",
}
"""Commands, and the next one that each of them prints."""


@pytest.mark.parametrize("given", COMMANDS)
def test_a_command_fits_80_columns_and_prints_the_next_one(
    given: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert main(shlex.split(given)) == 0
    lines = capsys.readouterr().out.splitlines()
    following = lines.pop().removeprefix("  rbd-control ").strip()
    assert following == COMMANDS[given]
    if following.split()[0] not in ("ros2", "cc"):
        command_line._parser().parse_args(shlex.split(following))
    assert max(map(len, lines)) <= WIDTH
    # An ellipsis stands only for the beginning of all names, and in texts that count a list.
    assert not re.findall(r"[^_ ]…", "\n".join(lines))
    # Wherever a number of the units of a table stands, an arm with revolute joints has N·m.
    assert "N·m or N" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("/ws/install/rbd_control/lib/rbd_control/rbd-control", "ros2 run rbd_control rbd-control"),
        ("/clone/.venv/bin/rbd-control", "/clone/.venv/bin/rbd-control"),
        ("/usr/lib/python3/rbd_control/cli/main.py", "rbd-control"),
    ],
)
def test_the_next_command_can_be_started_in_this_terminal(
    started: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [started])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert shlex.join(program()) == words


def test_an_arm_file_that_no_command_would_recognise_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["calibrate", "free", "--urdf", "panda.urdf", "--out", "arm.txt"]) == 2
    assert "--out is arm.txt; give a file that ends with .yaml" in capsys.readouterr().err


def test_a_command_that_has_to_compile_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The first replay was silent for a minute."""
    with commands._compilation_told():
        for _ in range(2):
            numba.njit(lambda x: x + 1.0)(1.0)
    said = capsys.readouterr().err
    assert said.startswith("compiling functions not stored yet")
    assert said.count("\n") == 1


def printed(table: Table, width: int, names: tuple[str, ...] = ()) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(table.on_console(names))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_a_table_that_is_too_wide_is_printed_in_blocks_without_a_cut_number() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(scale=1e3, size=(5, 12)).round(3)
    vector = "-56.1 -438.1 -312.6, not settled yet in this contact"
    rows = tuple(
        Row((f"left_arm_joint{k}", *map(str, each), vector)) for k, each in enumerate(numbers)
    )
    headings = ("joint", *(f"quantity {k} [N·m]" for k in range(12)), "force x y z [N]")
    table = Table("much", headings, rows, left=("joint", headings[-1]))
    for width in (60, 80, 140, 400):
        lines = printed(table, width)
        assert max(map(len, lines)) <= width
        cells = [cell.strip() for line in lines for cell in re.split("[│┃]", line)]
        for number in map(str, numbers.ravel()):
            assert number in cells
        assert sum("-56.1 -438.1 -312.6," in cell for cell in cells) == len(rows)
        blocks = sum("┏" in line for line in lines)
        assert (blocks == 1) == (width == 400)
        assert cells.count("joint3") == blocks  # each block names its rows


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        (("panda_joint1", "panda_joint2"), "panda_"),
        (("iiwa_joint_1", "iiwa_joint_2"), "iiwa_"),  # a name is no number
        (("left/a_1", "left/b_1"), "left/"),
        (("elbow_joint", "wrist_joint"), ""),
        (("joint_1",), ""),
    ],
)
def test_the_beginning_that_all_names_share(names: tuple[str, ...], prefix: str) -> None:
    assert common_prefix(names) == prefix


def test_a_single_link_loses_the_beginning_of_the_joints() -> None:
    table = Table("", ("link",), (Row(("panda_link5 57%, or panda_link6",)),), left=("link",))
    shown = "\n".join(printed(table, 80, ("panda_joint1", "panda_joint2")))
    assert "link5 57%, or link6" in shown
    assert shown.count("panda_") == 1  # in the heading


@pytest.mark.parametrize(("columns", "width"), [("77", 77), ("", 120), ("8", 60)])
def test_columns_hold_where_the_output_is_no_terminal(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert console_for_output().width == width


def test_a_short_recording_does_not_tell_a_rate_of_false_alarms() -> None:
    """The exact upper bound for no event in 3.7 h is one per hour."""
    nothing = Score((), 0, 0, 0)
    assert "record 3.7 h" in scores(summarise([nothing], 5.0).to_json())[-1]
    assert "0.0 (95%: 0.0 to 0.9)" in scores(summarise([nothing], 4.0 * 3600.0).to_json())[-1]
    seen = scores(summarise([Score((), 0, 2, 0)], 60.0).to_json())[-1]
    assert "2 false alarms in 60.0 s without contact, too few for a rate: at most 433 per" in seen
    many = scores(summarise([Score((), 0, 3, 3)], 7200.0).to_json())[-1]
    assert many.startswith("1.5 (95%: 0.3 to 4.4) false alarms per hour")
    few = [summarise([Score((), 0, n, 0, 0.46)], 66.0).to_json() for n in (0, 2)]
    shown = [row.cells[-1] for row in curve_table([{"factor": 1.0, **each} for each in few]).rows]
    assert shown == ["too short to tell", "too few for a rate"]
    assert [row["false_alarms_per_hour"] for row in _known_rates(few)] == shown
    assert "record" not in scores(few[0], advises=False)[-1]
    assert scores(few[0])[-1].endswith("raised for 0.46 s of this time, after contacts")


def test_missed_contacts_leave_delays_unknown() -> None:
    """It said "delay 155.0, missed ms"."""
    found = TrueContact(1.0, 2.0, 0, 0.155, 0.0)
    missed = TrueContact(3.0, 4.0, None)
    some = scores(summarise([Score((found, found, missed), 1, 0, 0)], 9.0).to_json())[1]
    assert some.startswith("delay 155.0 ms (median), 95th percentile unknown (1 missed), onset")
    most = scores(summarise([Score((found, missed, missed), 2, 0, 0)], 9.0).to_json())[1]
    assert most.startswith("delay unknown (2 missed), onset")


def motion(described: float, residual: float) -> Any:
    return SimpleNamespace(described=np.full((9, 7), described), residual=np.full((9, 7), residual))


@pytest.mark.parametrize(
    ("threshold", "described", "residual", "reason"),
    [
        (1.0, 0.5, 0.1, ""),  # more sensitive
        (9.0, 9.0, 0.1, ""),  # less, but without it there are false alarms
        (9.0, 0.5, 0.1, "times those without a calibration"),
        (1.0, 0.5, 0.6, "RMS residual is 0.6 N·m with the identified model"),
    ],
)
def test_a_calibration_that_is_worse_than_none(
    threshold: float, described: float, residual: float, reason: str
) -> None:
    known: Any = DetectorParameters(contact_threshold=(threshold,))
    model = Model.from_urdf(panda_arm_urdf())
    said = worse_than_none(known, [motion(described, residual)], model)
    assert reason in said
    assert bool(said) == bool(reason)


def test_only_thresholds_that_are_higher_are_named() -> None:
    """It named 4.67 instead of 4.66 N·m, and said "by 5 to 5 %"."""
    model = Model.from_urdf(panda_arm_urdf())
    usual = default_contact_thresholds(model)
    known: Any = DetectorParameters(contact_threshold=tuple(usual * [1.04, 1.1, 1, 1, 1, 1, 1]))
    (said,) = high_thresholds(known, model)
    assert "panda_joint2 6.12 instead of 5.56 N·m; contacts below them are missed" in said
    assert "panda_joint1" not in said
    assert [_percent(np.array(x)) for x in ([0.051, 0.049], [0.02, 0.05])] == ["5 %", "2 to 5 %"]
