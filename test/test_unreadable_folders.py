"""Inputs in folders that this process may not look into: the permission is named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from unprivileged import unprivileged

SOURCE = Path(__file__).resolve().parents[1]


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder without any permission; a process that they bind sees nothing in it."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "arm.urdf").write_text("<robot/>")
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def said(folder: Path, *arguments: str) -> str:
    """Return what the refused command prints on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "rbd_control.cli.main", *arguments],
        preexec_fn=unprivileged(),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("name", ["arm.urdf", "arm.xacro"])
def test_a_robot_description_is_not_called_missing(closed: Path, name: str) -> None:
    if name.endswith("xacro"):
        pytest.importorskip("xacro")
    err = said(closed.parent, "export", f"closed/{name}", "--to", "arm.h")
    assert err.startswith(f"rbd-control: closed/{name}: ")
    assert "no such file" not in err
    assert "Permission denied" in err
