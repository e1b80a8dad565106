"""No output of a command replaces one of its inputs or another output; all commands.

Numbers in brackets are rows of ``docs/faults.md``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import pytest
from damage import sound

from rbd_control.cli.main import _parser, main
from rbd_control.fleet.store import DONE, Outcome, Record, Store


class Case(NamedTuple):
    """A command line, the file that two of its arguments name, and these arguments.

    Attributes:
        line: the command line; words are separated by spaces.
        file: the path that the message names.
        first, second: the input and the output, or two outputs, as the message names them.
        outputs: whether both are outputs.
    """

    line: str
    file: str
    first: str
    second: str
    outputs: bool = False


REPLAY = "replay log.csv --urdf two.urdf"
CHECK = "check log.csv --urdf two.urdf"
CALIBRATE = "calibrate log.csv --urdf two.urdf"
COMMON = "calibrate log.csv --urdf two.urdf --fleet results --out new.yaml"

CASES = [
    Case(f"{REPLAY} --json log.csv", "log.csv", "RECORDING", "--json"),
    Case(f"{REPLAY} --html ./out/../log.csv", "out/../log.csv", "RECORDING", "--html"),
    Case("replay link.csv --urdf two.urdf --json log.csv", "log.csv", "RECORDING", "--json"),
    Case("replay bag --urdf two.urdf --json bag/bag_0.db3", "bag/bag_0.db3", "RECORDING", "--json"),
    Case(
        "replay log.csv --config arm.yaml --json two.urdf",
        "two.urdf",
        "urdf in the file of --config",
        "--json",
    ),
    Case(
        f"{REPLAY} --labels out/report.json --report out", "out/report.json", "--labels", "--report"
    ),
    Case(f"{CHECK} --json log.csv", "log.csv", "RECORDING", "--json"),
    Case(f"{CHECK} --config arm.yaml --html arm.yaml", "arm.yaml", "--config", "--html"),
    Case(
        f"{CHECK} --json out/check.html --report out",
        "out/check.html",
        "--json",
        "--report",
        outputs=True,
    ),
    Case(f"{CALIBRATE} --out a.yaml --json a.yaml", "a.yaml", "--out", "--json", outputs=True),
    Case(
        f"{CALIBRATE} --out out/calibration.png --report out",
        "out/calibration.png",
        "--out",
        "--report",
        outputs=True,
    ),
    Case(
        f"{CALIBRATE} --out a.yaml --payload-recording arms.csv=1.5 --json arms.csv",
        "arms.csv",
        "--payload-recording",
        "--json",
    ),
    Case(
        f"{CALIBRATE} --fleet results --sheet results/calibrate.csv",
        "results/calibrate.csv",
        "--sheet",
        "--fleet",
    ),
    Case(
        f"{REPLAY} --fleet results --sheet results/replay.csv",
        "results/replay.csv",
        "--sheet",
        "--fleet",
    ),
    Case("replay . --urdf two.urdf --fleet .", "replay.csv", "RECORDING", "--fleet"),
    Case(f"{COMMON} --html log.csv", "log.csv", "RECORDING", "--html"),
    Case("fleet-report done --out .", "arms.csv", "a recording of the fleet in DIR", "--out"),
    Case("export linked.c --to linked.h", "linked.c", "URDF", "--to"),
    Case("demo --json a.json --html a.json", "a.json", "--json", "--html", outputs=True),
    Case(
        "demo --report out --json out/demo.png", "out/demo.png", "--json", "--report", outputs=True
    ),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with the files of :data:`CASES`."""
    for name in ("log.csv", "arms.csv", "replay.csv"):
        (tmp_path / name).write_text(sound.csv_text(sound.swing(0.2)))
    for name in ("two.urdf", "other.urdf", "linked.c"):
        (tmp_path / name).write_text(sound.URDF)
    (tmp_path / "arm.yaml").write_text("/**: {ros__parameters: {urdf: two.urdf}}")
    (tmp_path / "sheet.csv").write_text("recording, urdf\nlog, other.urdf\n")
    for name in ("bag", "out", "results"):
        (tmp_path / name).mkdir()
    for name in ("labels.csv", "out/report.json", "out/replay.csv"):
        (tmp_path / name).write_text("recording, begin, end, link, force\n")
    for name in ("results/replay.csv", "results/calibrate.csv"):
        (tmp_path / name).write_text("recording\n")
    for name in ("bag/metadata.yaml", "bag/bag_0.db3"):
        (tmp_path / name).write_text("recorded")
    (tmp_path / "link.csv").symlink_to("log.csv")
    (tmp_path / "hard.h").symlink_to("two.urdf")
    store = Store(tmp_path / "done", "replay")
    store.prepare()
    store.write(Record(str(tmp_path / "arms.csv"), "replay", "a", None, False, "", Outcome(DONE)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.line)
def test_no_output_replaces_an_input_or_another_output(
    case: Case, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """[127] Before any work: one line names the file and both options, and no file changes."""
    before = contents(files)
    assert main(case.line.split()) == 2
    said = capsys.readouterr()
    if case.outputs:
        problem = f"is the output of both {case.first} and {case.second}; give each output a file"
    else:
        problem = f"is an input ({case.first}) and an output ({case.second}) of one command; give"
    assert said.err.startswith(f"rbd-control: {case.file}: {problem}")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert contents(files) == before


def test_every_option_that_names_a_file_is_covered() -> None:
    """A new option with a file needs a case above, or its command reads or writes no files."""
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    named = {
        (command, action.option_strings[0] if action.option_strings else str(action.metavar))
        for command, parser in commands.choices.items()
        for action in parser._actions
        if action.type is Path or action.dest in ("urdf", "payload_recordings")
        if command != "view"  # writes no files
        # Changes an existing file, and reads none beside it.
        if (command, action.dest) != ("check", "write")
    }
    covered = {
        (case.line.split()[0], option)
        for case in CASES
        for option in (*case.line.split(), *case.first.split())
    }
    assert named - covered == set()


@pytest.mark.parametrize(
    "line",
    [
        "replay log.csv --urdf two.urdf --json -",
        "demo --json -",
    ],
)
def test_standard_output_takes_no_file(
    line: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The options wrote a file of the name ``-``."""
    before = contents(files)
    assert main(line.split()) == 2
    said = capsys.readouterr()
    option = line.split()[-2]
    assert said.err == (
        "rbd-control: -: is no file: standard output takes the text of the command; give "
        f"{option} the name of a file\n"
    )
    assert said.out == ""
    assert contents(files) == before


def test_calibrate_may_replace_its_own_arm_file(files: Path) -> None:
    """``--urdf arm.yaml --out arm.yaml`` calibrates an arm again."""
    motion = sound.swing(22.0, 100.0)
    (files / "free.csv").write_text(sound.csv_text(motion))
    line = "calibrate free.csv --urdf arm.yaml --out arm.yaml"
    assert main(line.split()) == 0
    assert "friction_coulomb" in (files / "arm.yaml").read_text()
    assert main(line.split()) == 0
