"""The machine code kept on disk is that of the present sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rbd_control.dynamics import compiled

KERNEL = """
from kept.compiled import compiled
from kept.part import part

@compiled
def kernel(x):
    return part(x)

print(kernel(1.0), sum(kernel.stats.cache_hits.values()))
"""
PART = """
from kept.compiled import inlined

@inlined
def part(x):
    return {factor} * x
"""


def test_editing_a_part_compiles_its_kernels_again(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    shutil.copy(str(compiled.__file__), folder / "compiled.py")
    (folder / "kernel.py").write_text(KERNEL)

    def run(factor: float | None = None) -> str:
        """Value of the kernel, and how often its code came from the disk."""
        if factor is not None:
            (folder / "part.py").write_text(PART.format(factor=factor))
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("NUMBA_CACHE_DIR", None)
        return subprocess.run(
            [sys.executable, "-m", "kept.kernel"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    assert run(2.0) == "2.0 0"
    assert run() == "2.0 1"
    assert run(3.5) == "3.5 0"


def test_without_a_folder_to_write_to_a_kernel_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])

    @compiled.compiled
    def double(x):
        return 2.0 * x

    assert double(1.5) == 3.0
