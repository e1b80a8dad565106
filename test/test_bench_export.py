"""Processing of results and times by ``python -m bench.export``; no C is compiled."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("pinocchio")

from bench.export import __main__ as benchmark
from bench.export.__main__ import EXPORTED, FROZEN, accepted, row, write
from bench.speed.quantities import Contestant, Quantity
from rbd_control.export import CFiles


def contestant(seconds: float, *results: float) -> Contestant:
    return Contestant(lambda calls: calls * seconds, lambda: (np.array(results),))


def test_the_benchmark_compares_before_it_times(tmp_path: Path) -> None:
    rivals = {FROZEN: contestant(4e-3, 1.0, 2.0), EXPORTED: contestant(1e-3, 1.0, 2.0 + 1e-15)}
    timed = row("Panda", Quantity.INVERSE, 17, rivals)
    assert timed.times[EXPORTED].median == pytest.approx(1e3)
    assert timed.ratios[FROZEN].median == pytest.approx(0.25)
    write([timed], ["a remark"], tmp_path, Console(quiet=True))
    table = (tmp_path / "export.md").read_text(encoding="utf-8")
    assert "| RNEA | 17 | 1000.000 | 4000.000 | - | 0.25 | - |" in table
    rivals[EXPORTED] = contestant(1e-3, 1.0, 2.0 + 1e-11)
    with pytest.raises(RuntimeError, match="Panda, RNEA: exported C is off by 5.0e-12"):
        row("Panda", Quantity.INVERSE, 17, rivals)


def test_a_warning_of_any_compiler_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    files = CFiles("", '#include "ours.h"\n', {})

    def compiler(name: str, complaint: str) -> SimpleNamespace:
        return SimpleNamespace(
            name=name, version=lambda: f"{name} 1.0", complaint=lambda *_: complaint
        )

    quiet = compiler("gcc", ""), compiler("clang", "")
    monkeypatch.setattr(benchmark, "compilers", lambda: quiet)
    assert accepted("Panda", files).endswith("-pedantic from gcc 1.0, clang 1.0")
    monkeypatch.setattr(benchmark, "compilers", lambda: (*quiet, compiler("icc", "unused x")))
    with pytest.raises(RuntimeError, match="Panda: icc warns of exported C:\nunused x"):
        accepted("Panda", files)
