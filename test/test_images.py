"""Images and environments contain what the package needs; the tests need no build tool."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
CONDA_NAMES = {"python3-matplotlib": "matplotlib-base", "python3-yaml": "pyyaml"}


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, continued lines joined."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_files_that_the_image_copies_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in ignored if line and not line.startswith("#")]
    copied = [
        argument.split()[0]
        for name, argument in instructions(ROOT / "Dockerfile")
        if name == "COPY" and not argument.startswith("--from")
    ]
    assert "." in copied
    needed = [*copied[:-1], "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"]
    for file in [*needed, "launch", "config", "rbd_control", "resource", "security"]:
        assert (ROOT / file).exists(), file
        assert not any(fnmatch(file, pattern) for pattern in patterns), file


def test_the_conda_environment_has_every_dependency() -> None:
    text = (ROOT / "pixi.toml").read_text(encoding="utf-8")
    section = text.partition("[dependencies]")[2].partition("\n[")[0]
    names = set(re.findall(r"^([\w.-]+) = ", section, re.MULTILINE))
    keys = [item.text or "" for item in ElementTree.parse(ROOT / "package.xml").iter("exec_depend")]
    for key in keys:
        plain = CONDA_NAMES.get(key, key.removeprefix("python3-"))
        assert names & {plain, f"ros-jazzy-{key.replace('_', '-')}"}, key
