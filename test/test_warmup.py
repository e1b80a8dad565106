"""Compiled code: reported during compilation, compiled ahead of time, and stored."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Process
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from numba import njit
from numba.core.errors import TypingError
from numba.core.event import Event, Listener, install_listener

from rbd_control.cli.main import main
from rbd_control.dynamics import kernel_cache
from rbd_control.dynamics.compiled import compiled
from rbd_control.startup.compilation import CompilationWatch, storage
from rbd_control.startup.warmup import BESIDE


def test_warmup_leaves_nothing_to_compile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup"]) == 0
    capsys.readouterr()
    assert main(["warmup"]) == 0
    said = capsys.readouterr().out
    assert "all code is compiled" in said
    assert str(storage()) in said


def test_the_garbage_collector_waits_for_the_end_of_a_kernel() -> None:
    seen: list[bool] = []
    with CompilationWatch(lambda _kernel: seen.append(gc.isenabled())):

        @njit
        def fails(x: float) -> float:
            return x + "text"  # type: ignore[operator]

        with pytest.raises(TypingError), watch_collector(seen):
            fails(1.0)
        assert gc.isenabled()
    assert seen == [True, False]


@contextmanager
def watch_collector(seen: list[bool]) -> Iterator[None]:
    """Record whether the collector runs at the end of the typing of a function."""

    class Typed(Listener):
        def on_start(self, event: Event) -> None:
            """Nothing."""

        def on_end(self, event: Event) -> None:
            if not seen[1:]:
                seen.append(gc.isenabled())

    with install_listener("numba:run_pass", Typed()):
        yield


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


@pytest.mark.parametrize(
    ("cores", "times", "count"),
    [(2, [1.0, 2.0], 2), (2, None, 1), (1, None, 1)],
    ids=["two processors", "the other process dies", "one processor"],
)
def test_another_process_compiles_half_of_the_functions(
    cores: int,
    times: list[float] | None,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("rbd_control.cli.warmup.usable_cores", lambda: cores)

    def start_beside(*names: str, told: Connection) -> Process:
        if times is not None:
            told.send({BESIDE[0]: times})
        process = Process()  # that ends at once
        process.start()
        return process

    monkeypatch.setattr("rbd_control.cli.warmup.start_beside", start_beside)
    here = [(BESIDE[0], lambda: njit(lambda x: 4.0 * x)(1.0))]
    monkeypatch.setattr("rbd_control.cli.warmup.steps", lambda: here)
    main(["warmup"])
    told = capsys.readouterr().out
    assert f"{BESIDE[0]}: {count} function" in told
    assert f"compiled {count} function" in told
    assert "s of processor time)" in told
