"""Files and folders without permission: outputs are checked before the work, inputs are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from unprivileged import unprivileged

from rbd_control.files.output_files import prepare_output

PROGRAM = """
import json, sys
from pathlib import Path
from rbd_control.files.output_files import prepare_output, write_whole
path, seen = Path(sys.argv[1]), []
for act in (prepare_output, lambda path: write_whole(path, b"new")):
    try:
        act(path)
    except OSError as error:
        seen.append(f"{error.strerror}: {Path(error.filename).name}")
    else:
        seen.append("ok")
print(json.dumps(seen))
"""


def outcome(path: Path) -> list[str]:
    """Return the results of check and writer in a process that permissions bind."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path],
        preexec_fn=unprivileged(),
        capture_output=True,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A folder without permission for new files, with a file that may be written."""
    folder = tmp_path / "locked"
    folder.mkdir()
    (folder / "arm.yaml").write_text("old")
    folder.chmod(0o555)
    return folder


@pytest.mark.parametrize("name", ["arm.yaml", "new.yaml"])
def test_a_folder_without_permission_is_named_before_the_work(locked: Path, name: str) -> None:
    """The writer replaces files as a whole; the check accepted a file that may be written."""
    check, written = outcome(locked / name)
    assert check == "Permission denied: locked"
    assert written == f"Permission denied: {name}"


def test_a_file_that_not_even_root_can_write_is_named_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError, match="'/proc'"):
        prepare_output(Path("/proc/arm.yaml"))
    prepare_output(tmp_path / "typo" / "arm.yaml")
    assert capsys.readouterr().out == f"created {tmp_path / 'typo'}\n"
    assert not list((tmp_path / "typo").iterdir())


@pytest.mark.parametrize("path", ["/dev/null", "/dev/stderr", "/proc/self/fd/2"])
def test_devices_and_streams_are_written_to(path: str) -> None:
    assert outcome(Path(path)) == ["ok", "ok"]


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
        pytest.importorskip("xacrodoc")
    err = said(closed.parent, "export", f"closed/{name}", "--to", "arm.h")
    assert err.startswith(f"rbd-control: closed/{name}: ")
    assert "no such file" not in err
    assert "Permission denied" in err
