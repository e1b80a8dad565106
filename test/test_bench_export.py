"""Processing of results and times by ``python -m bench.export``; no C is compiled."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("pinocchio")

from bench.export.__main__ import EXPORTED, FROZEN, row, write
from bench.speed.quantities import Contestant, Quantity


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
