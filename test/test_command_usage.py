"""The command ``rbd-control``: wrong usage, its version, and the arguments of ``demo``."""

from __future__ import annotations

import pytest

from rbd_control.cli.main import _parser, main


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow=much"],
        ["demo", "--duration", "nan"],
        ["monitor", "--detector", "left//contact_detector"],
        ["view", "--namespace", "left", "2nd"],
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
