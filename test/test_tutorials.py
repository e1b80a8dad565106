"""The tutorials: their commands run and print the output that the pages show."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rbd_control.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"

OFFLINE = re.compile(r"cat |python -c |python -m bench|rbd-control \w+ (?:test|ur5)/")
"""Commands that need neither a robot, nor ROS, nor the network."""


pytestmark = pytest.mark.timeout(900)
"""A busy machine compiles the changed package for minutes."""


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


def run(command: str) -> None:
    """Run a line of the shell, or one here-document, in this folder."""
    if command.startswith("rbd-control "):
        main(shlex.split(command)[1:])
        return
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path}
    subprocess.run(["bash", "-ec", command], check=True, env=environment)


def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run the part of a block that needs no robot and no ROS; ``names`` are for its Python code."""
    if block.language == "python" and "rclpy" not in block.text:
        exec(compile(block.text, "page", "exec"), names)
    elif block.language == "sh":
        lines = [block.text] if block.text.startswith("cat ") else block.text.splitlines()
        for line in filter(OFFLINE.match, lines):
            run(line)


@pytest.mark.parametrize("page", ["own_recordings", "detector_franka", "controller_in_simulation"])
def test_a_page_shows_what_its_blocks_print(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("bench", "config", "rbd_control", "test"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed, compared = "", 0
    for block in blocks(page):
        if block.language != "text":
            run_block(block, names)
            printed = "".join(capfd.readouterr())
        elif printed:
            assert missing(block.text, printed) == ""
            printed, compared = "", compared + 1
    assert compared


def applied(diff: str, root: Path) -> None:
    """Apply a block of changes to a file below ``root``; each hunk must fit in one place."""
    header, _, body = diff.partition("\n")
    path = root / header.removeprefix("--- ")
    text = path.read_text(encoding="utf-8")
    for hunk in body.split("@@\n"):
        lines = hunk.splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, (
            f"{path.name} has these lines {text.count(before)} times; adapt the listing of the "
            f"tutorial to the file, or the file to the listing:\n{before}"
        )
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def test_the_worked_example_of_an_observer(tmp_path: Path) -> None:
    """With the page's changes in a copy of the package, its code prints the output of the page."""
    for name in ("bench", "config", "docs", "rbd_control", "test"):
        # With the compiled code: what the page does not change need not compile again.
        unwanted = shutil.ignore_patterns("*.pyc", "data", "images")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=unwanted)
    page = (TUTORIALS / "adding_an_observer.md").read_text(encoding="utf-8")
    new_file = re.search(r"Save as\s+`([^`]+)`:\n\n```python\n(.*?)```", page, re.DOTALL)
    assert new_file
    (tmp_path / new_file[1]).write_text(new_file[2], encoding="utf-8")
    code, shown = "", ""
    for block in blocks("adding_an_observer"):
        if block.language == "diff":
            applied(block.text, tmp_path)
        elif block.language == "python" and block.text != new_file[2]:
            code += block.text
        elif block.language == "text":
            shown += block.text
    # In the same process, the tests need not load the package and its compiled code once more.
    tests = ["-q", "-k", "third_order", "test/estimation/test_observers.py"]
    code += f"\nimport sys, pytest\nsys.exit(pytest.main({tests}))\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert missing(shown, done.stdout) == ""
    assert " passed" in done.stdout
