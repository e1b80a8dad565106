"""Compiled code: reported during compilation, compiled ahead of time, and stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import njit

from rbd_control.cli.main import main
from rbd_control.dynamics import kernel_cache
from rbd_control.dynamics.compiled import compiled
from rbd_control.startup.compilation import storage, watch_compilation


def test_each_kernel_is_reported_once_with_its_time() -> None:
    inner = njit(lambda x: x + 1)

    @njit
    def _twice(x):  # type: ignore[no-untyped-def]
        return 2 * inner(x)

    begun: list[str] = []
    done: list[tuple[str, float]] = []
    with watch_compilation(begun.append, lambda *item: done.append(item)):
        assert _twice(1) == _twice(1) == 4
    assert begun == [name for name, _ in done] == ["test_warmup.twice"]
    assert done[0][1] > 0.0
    with watch_compilation(begun.append):
        _twice(2)
    _twice(2.0)  # compiled, but nobody watches any more
    assert len(begun) == 1


def test_warmup_leaves_nothing_to_compile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup"]) == 0
    capsys.readouterr()
    assert main(["warmup"]) == 0
    said = capsys.readouterr().out
    assert "all code is compiled" in said
    assert str(storage()) in said


def stored(**environment: str) -> str:
    """Return the folder in which a process with this environment stores compiled code."""
    inherited = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "from rbd_control.startup.compilation import storage; print(storage())",
        ],
        env={**inherited, **environment},
        cwd=environment["PYTHONPATH"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_warmup_reports_once_that_no_code_can_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(kernel_cache, "use", use := kernel_cache.CacheUse())
    monkeypatch.setattr("rbd_control.cli.warmup.use", use)

    def compile_two() -> None:
        compiled(lambda x: 2.0 * x)(1.0)
        compiled(lambda x: 3.0 * x)(1.0)

    monkeypatch.setattr("rbd_control.cli.warmup.steps", lambda: [("test", compile_two)])
    assert main(["warmup"]) == 1
    told = capsys.readouterr()
    assert "2 functions compiled" in told.out
    assert "stored in" not in told.out
    (line,) = told.err.splitlines()
    assert line.startswith("rbd-control: cannot keep compiled code in")
    assert str(tmp_path / "file") in line
