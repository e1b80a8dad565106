"""A wheel has the executables in lib/rbd_control, where `ros2 launch` looks for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = ("__pycache__", "*.egg-info", ".*", "bench", "build", "docs", "report", "test")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the prefix of an installed wheel of the sources, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    sources, prefix = folder / "sources", folder / "prefix"
    shutil.copytree(ROOT, sources, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, sources)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    options = ("--no-deps", "--no-index", "--ignore-installed", "--prefix", prefix)
    installed = run(*pip, "install", *options, wheel)
    assert installed.returncode == 0, installed.stderr
    return prefix


def test_executables_are_where_ros2_launch_looks(prefix: Path) -> None:
    folder = next(prefix.rglob("lib/rbd_control/contact_detector")).parent
    packages = next(prefix.rglob("rbd_control/__init__.py")).parent.parent
    found = {path.name for path in folder.iterdir()}
    assert found == {path.name for path in (ROOT / "scripts").iterdir()}
    assert found == {path.name for path in (folder.parent.parent / "bin").iterdir()}
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())
    # The node itself runs, and gets the arguments: it says what it lacks.
    arguments = ("--ros-args", "-p", "urdf:=/no/such.urdf")
    ended = run(
        folder / "contact_detector",
        *arguments,
        PYTHONPATH=str(packages),
        ROS_LOG_DIR=str(prefix),
    )
    assert ended.returncode == 1
    assert "/no/such.urdf" in ended.stdout + ended.stderr
