"""A fleet of recordings: discovery, repeated runs, and stored results."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from damage import sound

from rbd_control.cli.main import main
from rbd_control.errors import InputError
from rbd_control.fleet.jobs import Job, run_job
from rbd_control.fleet.sheet import find_recordings
from rbd_control.fleet.store import Outcome
from rbd_control.robot.robot import Robot


class Here:
    """Workers of this process; they are interrupted after some jobs.

    Attributes:
        done: the recordings that were worked on.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.most = 1000

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Outcome]]:
        for index, job in enumerate(jobs):
            if len(self.done) >= self.most:
                raise KeyboardInterrupt
            self.done.append(job.recording.name)
            yield index, run_job(job)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    workers = Here()
    monkeypatch.setattr("rbd_control.cli.fleet.LocalWorkers", lambda _count: workers)
    return workers


@pytest.fixture
def bags(tmp_path: Path) -> Path:
    """Three recordings of two arms, one of them damaged."""
    bags = tmp_path / "bags"
    for name, seed in (("left/one", 1), ("left/two", 2), ("right/three", 3)):
        path = bags / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sound.csv_text(sound.swing(1.2, seed=seed)))
    (bags / "right" / "bad.mcap").write_bytes(b"no bag")
    (tmp_path / "two.urdf").write_text(sound.URDF)
    (tmp_path / "detector.yaml").write_text(sound.CONFIG)
    return bags


def fleet(bags: Path, *more: str) -> int:
    root = bags.parent
    files = ["--urdf", str(root / "two.urdf"), "--config", str(root / "detector.yaml")]
    return main(["replay", str(bags), *files, "--fleet", str(root / "results"), *more])


def table(bags: Path, name: str = "replay") -> dict[str, dict[str, str]]:
    with (bags.parent / "results" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {Path(row["recording"]).name: row for row in csv.DictReader(file)}


def test_a_bad_recording_is_named_and_passed_over(
    bags: Path, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet(bags, "--free") == 1
    out, err = capsys.readouterr()
    assert "4 recordings" in out
    assert "1 bad, 3 done" in out
    assert err.count("\n") == 1
    assert err.startswith(f"rbd-control: {bags / 'right' / 'bad.mcap'}: ")
    rows = table(bags)
    assert list(rows) == ["one.csv", "two.csv", "bad.mcap", "three.csv"]
    assert rows["bad.mcap"]["status"] == "bad"
    assert rows["bad.mcap"]["reason"] in err
    assert [row["arm"] for row in rows.values()] == ["left", "left", "right", "right"]
    # The times of these files count from zero.
    assert rows["one.csv"]["start"] == "0.0"
    assert rows["one.csv"]["day"] == ""
    # The elbow is pushed, and --free declares that a false alarm.
    assert rows["one.csv"]["false_alarms"] == rows["one.csv"]["events"] == "1"
    assert float(rows["one.csv"]["threshold/elbow"]) == 2.0


def test_true_contacts_of_a_recording_that_is_declared_free_are_told(
    bags: Path, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    sound.write_bag(bags / "left" / "bag", sound.swing(1.2))
    said = "warning, in 1 recording: the true contacts in the recording do not count"
    for options, told in ((["--free"], True), ([], False)):
        assert fleet(bags, *options) == 1
        assert (said in capsys.readouterr().err) == told
    assert main(["fleet-report", str(bags.parent / "results")]) == 0
    assert "1 recording without result: the column reason" in capsys.readouterr().out


def test_an_interrupted_run_goes_on_with_what_is_missing(bags: Path, here: Here) -> None:
    here.most = 2
    assert fleet(bags) == 130
    assert here.done == ["one.csv", "two.csv"]
    here.most = 1000
    assert fleet(bags) == 1
    assert here.done == ["one.csv", "two.csv", "bad.mcap", "three.csv"]
    # Only the bad one is tried again.
    assert fleet(bags) == 1
    assert here.done[4:] == ["bad.mcap"]
    (bags / "right" / "bad.mcap").unlink()
    assert fleet(bags) == 0
    assert here.done[5:] == []


def test_a_signal_ends_the_command_and_its_workers(bags: Path) -> None:
    for k in range(200):
        shutil.copy(bags / "left" / "one.csv", bags / "left" / f"copy_{k}.csv")
    results = bags.parent / "results"
    command = [sys.executable, "-m", "rbd_control.cli.main", "replay", str(bags)]
    command += ["--urdf", str(bags.parent / "two.urdf"), "--fleet", str(results), "--workers", "2"]
    with subprocess.Popen(command) as process:
        while not list((results / "replay").glob("*.json")):
            assert process.poll() is None
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert len(children) >= 2
    while any(_lives(int(child)) for child in children):
        time.sleep(0.05)  # until the test's own time limit
    assert not list(results.rglob("*.new"))
    for path in (results / "replay").iterdir():
        assert json.loads(path.read_text())["status"]


def _lives(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_changed_recordings_are_done_again(bags: Path, here: Here) -> None:
    (bags / "right" / "bad.mcap").unlink()
    assert fleet(bags) == 0
    here.done.clear()
    two = bags / "left" / "two.csv"
    os.utime(two, (1.0, 1.0))
    assert fleet(bags) == 0
    assert here.done == ["two.csv"]
    every = ["one.csv", "three.csv", "two.csv"]
    detector, description = bags.parent / "detector.yaml", bags.parent / "two.urdf"
    detector.write_text(sound.CONFIG.replace("3.0", "4.0"))
    here.done.clear()
    assert fleet(bags) == 0
    assert sorted(here.done) == every
    description.write_text(sound.URDF.replace('"4"', '"4.1"'))
    here.done.clear()
    assert fleet(bags) == 0
    assert sorted(here.done) == every
    here.done.clear()
    assert fleet(bags, "--free") == 0
    assert sorted(here.done) == every


def test_recordings_are_found_in_folders_and_by_patterns(bags: Path) -> None:
    bag = bags / "deep" / "er" / "bag"
    bag.mkdir(parents=True)
    (bag / "metadata.yaml").touch()
    (bag / "bag_0.mcap").touch()
    (bags / ".hidden").mkdir()
    (bags / ".hidden" / "x.csv").touch()
    (bags / "notes.txt").touch()
    left = [bags / "left" / "one.csv", bags / "left" / "two.csv"]
    assert find_recordings([bags]) == [
        bag,
        *left,
        bags / "right" / "bad.mcap",
        bags / "right" / "three.csv",
    ]
    # Each once, however it is named.
    given = [Path(f"{bags}/**/*.csv"), left[0], bags / "deep"]
    assert find_recordings(given) == [*left, bags / "right" / "three.csv", bag]
    (bags / "left" / "one_labels.csv").write_text("recording,begin, end\none,0.4,0.6\n")
    assert find_recordings([bags / "left"], [left[0]]) == left[1:]
    with pytest.raises(InputError, match="no recording in"):
        find_recordings([bags / "*.db3"])


def test_calibration_of_each_recording_is_a_row(
    bags: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(bags)
    for k in range(2):
        path = bags / "left" / f"free_{k}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sound.csv_text(sound.swing(22.0, 60.0, seed=k)))
    root = bags.parent
    monkeypatch.chdir(root)
    arguments = ["calibrate", str(bags), "--urdf", "two.urdf"]
    assert main([*arguments, "--fleet", str(root / "results")]) == 0
    rows = table(bags, "calibrate")
    for row in rows.values():
        # The friction that the motion was made with, to a fifth of it.
        assert float(row["friction_coulomb/shoulder"]) == pytest.approx(0.5, rel=0.2)
        assert float(row["threshold/elbow"]) > 0.0
    assert len(rows) == 2
    # With --out, nothing is done again, and all recordings make one parameter file.
    here.done.clear()
    out = root / "arm.yaml"
    assert main([*arguments, "--fleet", str(root / "results"), "--out", str(out)]) == 0
    assert here.done == []
    found = Robot.load(out).parameters.friction_coulomb
    assert found[0] == pytest.approx(0.5, rel=0.2)
    assert "free_0.csv, free_1.csv" in out.read_text()
