"""A kernel is compiled anew when any source changes that its machine code is made of."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import rbd_control
from rbd_control.dynamics.kernel_cache import KernelCache, dependencies

ROOT = Path(rbd_control.__file__).resolve().parents[1]

# Ways in which a kernel's file can name the file `kept/inner/part.py`.
IMPORTS = {
    "absolute": "from kept.inner.part import part",
    "absolute, further names": "from kept.inner.part import (\n    part,  # (once)\n    other,\n)",
    "relative": "from .inner.part import part",
    "module": "import kept.inner.part as p\npart = p.part",
    "several modules": "import os, kept.inner.part as p\npart = p.part",
    "module from package": "from kept.inner import part as p\npart = p.part",
    "relative module from package": "from .inner import part as p\npart = p.part",
    "handed on by a package": "from kept.inner.handed import part",
    "through another module": "from kept.between import part",
    "everything": "from kept.inner.part import *",
    "in a function": "def get():\n    from kept.inner.part import part\n    return part\n"
    "part = get()",
}
KERNEL = """{imports}
from rbd_control.dynamics.compiled import compiled

@compiled
def kernel(x):
    return part(x)

if __name__ == "__main__":
    print(kernel(1.0), sum(kernel.stats.cache_hits.values()))
"""
PART = """
from rbd_control.dynamics.compiled import inlined

other = 1

@inlined
def part(x):
    return {factor} * x
"""


def make_package(folder: Path, imports: str) -> Path:
    files = {
        "kept/__init__.py": "",
        "kept/between.py": "from .inner.part import part",
        "kept/unused.py": "",
        "kept/kernel.py": KERNEL.format(imports=imports),
        "kept/inner/__init__.py": "",
        "kept/inner/handed/__init__.py": "from kept.inner.part import part",
        "kept/inner/part.py": PART.format(factor=2.0),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "kept" / "kernel.py"


@pytest.mark.parametrize("imports", IMPORTS.values(), ids=IMPORTS)
def test_files_that_are_imported_are_found(imports: str, tmp_path: Path) -> None:
    file = make_package(tmp_path, imports)
    found = dependencies(file)
    assert tmp_path / "kept" / "inner" / "part.py" in found
    assert ROOT / "rbd_control" / "dynamics" / "compiled.py" in found
    assert tmp_path / "kept" / "unused.py" not in found


def test_editing_a_part_compiles_its_kernels_again(tmp_path: Path) -> None:
    file = make_package(tmp_path, IMPORTS["absolute"])

    def run(factor: float | None = None) -> str:
        """Return the value of the kernel, and how often its code came from the disk."""
        if factor is not None:
            (file.parent / "inner" / "part.py").write_text(PART.format(factor=factor))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
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
    assert run(2.0) == "2.0 1"


def kernels() -> Iterator[Dispatcher]:
    """Yield the kernels of the package."""
    for module in pkgutil.walk_packages(rbd_control.__path__, "rbd_control."):
        if not {"nodes", "ros", "live"}.intersection(module.name.split(".")):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Dispatcher) and value.__module__ == module.name:
                    yield value


def parts(function: Any, seen: set[Any]) -> set[Any]:
    """Return the functions of the package that one calls, and those that they call."""
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        value = getattr(value, "py_func", getattr(value, "_defn", value))
        code = getattr(value, "__code__", None)
        if code and value not in seen and value.__module__.startswith("rbd_control."):
            seen.add(value)
            parts(value, seen)
    return seen


def test_each_kernel_is_stamped_with_all_that_it_calls() -> None:
    checked = 0
    for kernel in kernels():
        if isinstance(kernel._cache, KernelCache):
            found = dependencies(Path(kernel.py_func.__code__.co_filename))
            for part in parts(kernel.py_func, set()):
                assert Path(part.__code__.co_filename) in found, (kernel, part)
                checked += 1
    assert checked > 500
