"""No output of a command replaces one of its inputs or another output; all commands."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from damage import sound

from rbd_control.cli.main import main
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


CASES = [
    Case("replay log.csv --urdf two.urdf --json link.csv", "link.csv", "RECORDING", "--json"),
    Case("replay log.csv --urdf two.urdf --json log.csv", "log.csv", "RECORDING", "--json"),
    Case("replay link.csv --urdf two.urdf --json log.csv", "log.csv", "RECORDING", "--json"),
    Case("replay bag --urdf two.urdf --json bag/bag_0.db3", "bag/bag_0.db3", "RECORDING", "--json"),
    Case(
        "replay log.csv --config arm.yaml --json two.urdf",
        "two.urdf",
        "urdf in the file of --config",
        "--json",
    ),
    Case(
        "replay log.csv --urdf two.urdf --labels out/report.json --report out",
        "out/report.json",
        "--labels",
        "--report",
    ),
    Case(
        "check log.csv --urdf two.urdf --config arm.yaml --html arm.yaml",
        "arm.yaml",
        "--config",
        "--html",
    ),
    Case(
        "calibrate log.csv --urdf two.urdf --out a.yaml --json a.yaml",
        "a.yaml",
        "--out",
        "--json",
        outputs=True,
    ),
    Case(
        "calibrate log.csv --urdf two.urdf --out a.yml --payload-recording arms.csv=1 "
        "--json arms.csv",
        "arms.csv",
        "--payload-recording",
        "--json",
    ),
    Case("replay . --urdf two.urdf --fleet .", "replay.csv", "RECORDING", "--fleet"),
    Case("fleet-report done --report .", "arms.csv", "a recording of the fleet in DIR", "--report"),
    Case("export linked.c --to linked.h", "linked.c", "URDF", "--out"),
    Case(
        "demo --report out --json out/demo.png", "out/demo.png", "--json", "--report", outputs=True
    ),
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with the files of :data:`CASES`."""
    for name in ("log.csv", "arms.csv", "replay.csv"):
        (tmp_path / name).write_text(sound.csv_text(sound.swing(0.2)))
    for name in ("two.urdf", "linked.c"):
        (tmp_path / name).write_text(sound.URDF)
    (tmp_path / "arm.yaml").write_text("/**: {ros__parameters: {urdf: two.urdf}}")
    for name in ("bag", "out"):
        (tmp_path / name).mkdir()
    for name in ("labels.csv", "out/report.json"):
        (tmp_path / name).write_text("recording, begin, end, link, force\n")
    for name in ("bag/metadata.yaml", "bag/bag_0.db3"):
        (tmp_path / name).write_text("recorded")
    (tmp_path / "link.csv").symlink_to("log.csv")
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
    """Before any work: one line names the file and both options, and no file changes."""
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
