"""The command ``rbd-control``: wrong usage, its version, and the arguments of ``demo``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rbd_control.cli.main import _parser, main


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["replay"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow=much"],
        ["demo", "--duration", "0"],
        ["demo", "--duration", "nan"],
        ["monitor", "--detector", "my detector"],
        ["monitor", "--detector", "left//contact_detector"],
        ["monitor", "--detector", "/"],
        ["monitor", "--detector", "d" * 201],
        ["view", "--namespace", "left", "2nd"],
        ["payload", "--namespace", "left!"],
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: rbd-control" in capsys.readouterr().err


def test_names_of_ros_may_have_slashes_at_their_ends() -> None:
    parser = _parser()
    assert parser.parse_args(["monitor", "--detector", "/a/detector"]).detector == "a/detector"
    assert parser.parse_args(["payload", "--namespace", "/left/"]).namespace == "left"
    assert parser.parse_args(["view", "--namespace", "", "_a/b2"]).namespace == ["", "_a/b2"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("rbd-control 0.")


def test_demo_gets_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    called: list[object] = []
    demo = ModuleType("rbd_control.live.demo")

    def run_demo(*arguments: object) -> int:
        called.extend(arguments)
        return 7

    monkeypatch.setattr(demo, "run_demo", run_demo, raising=False)
    monkeypatch.setitem(sys.modules, "rbd_control.live.demo", demo)
    arguments = ["demo", "--duration", "5", "--report", str(tmp_path), "--json", "demo.json"]
    assert main(arguments) == 7
    assert called == [5.0, tmp_path, Path("demo.json"), False, None]
    called.clear()
    assert main(["demo", "--view", "--html", "demo.html"]) == 7
    assert called == [None, None, None, True, Path("demo.html")]


def test_demo_without_ros_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['rclpy'] = None\n"
        "from rbd_control.cli.main import _parser, main\n"
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert "pip install '.[ros]'" in done.stderr
    assert "Traceback" not in done.stderr
