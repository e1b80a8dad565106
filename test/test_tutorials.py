"""The tutorials: their commands run, and print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from rbd_control.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"

OFFLINE = ("cat ", "python -c ", "rbd-control calibrate ", "rbd-control replay ")
"""Beginnings of the commands that need neither a robot, nor ROS, nor the network."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a tutorial in their order."""
    text = (TUTORIALS / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(*block) for block in found]


def tokens(text: str) -> list[str]:
    """Split output into words and numbers, without white space and the lines of tables."""
    return re.findall(r"-?\d+(?:\.\d+)?|[^\W\d]+|[^\w\s]", re.sub(r"[─-╿]", " ", text))


def same(shown: str, printed: str) -> bool:
    """Whether two tokens agree; numbers may differ a little with the versions of libraries."""
    try:
        return float(shown) == pytest.approx(float(printed), rel=0.05, abs=0.05)
    except ValueError:
        return shown == printed


def missing(shown: str, printed: str) -> str:
    """Return the first part of ``shown`` that ``printed`` lacks; parts are in order."""
    found, k = tokens(printed), 0
    for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE):
        wanted = tokens(part)
        while k + len(wanted) <= len(found):
            if all(map(same, wanted, found[k:])):
                break
            k += 1
        else:
            return part
        k += len(wanted)
    return ""


def run(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Run a block of the shell in this folder and return all that it prints."""
    if command.startswith("rbd-control "):
        main(shlex.split(command)[1:])
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path}
        subprocess.run(["bash", "-ec", command], check=True, env=environment, timeout=120)
    return "".join(capfd.readouterr())


@pytest.mark.parametrize("page", ["own_recordings"])
def test_commands_print_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("bench", "config", "rbd_control", "test"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    printed, compared = "", 0
    for language, text in blocks(page):
        if language == "sh":
            lines = [text] if text.startswith("cat ") else text.splitlines()
            offline = [line for line in lines if line.startswith(OFFLINE)]
            printed = "".join(run(line, capfd) for line in offline)
        elif language == "text" and printed:
            assert missing(text, printed) == ""
            compared += 1
    assert compared
