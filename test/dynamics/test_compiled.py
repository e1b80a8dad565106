"""Compiled code: when it is compiled anew, its building blocks, and loops that borrow arrays."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

import rbd_control
from rbd_control.dynamics.compiled import compiled_borrowing
from rbd_control.dynamics.kernel_cache import KernelCache, dependencies
from rbd_control.dynamics.memory import STACK_NUMBERS, numbers, scratch
from rbd_control.dynamics.small_systems import REACH, cos_sin
from rbd_control.estimation import decision, thresholds, validity
from rbd_control.joint_states import acceptance

ROOT = Path(rbd_control.__file__).resolve().parents[1]

KERNEL = """
from kept.inner.part import part
from rbd_control.dynamics.compiled import compiled

@compiled
def kernel(x):
    return part(x)

if __name__ == "__main__":
    print(kernel(1.0), sum(kernel.stats.cache_hits.values()))
"""
PART = """
from rbd_control.dynamics.compiled import inlined

@inlined
def part(x):
    return {factor} * x
"""


def make_package(folder: Path) -> Path:
    files = {
        "kept/__init__.py": "",
        "kept/kernel.py": KERNEL,
        "kept/inner/__init__.py": "",
        "kept/inner/part.py": PART.format(factor=2.0),
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "kept" / "kernel.py"


def test_editing_a_part_compiles_its_kernels_again(tmp_path: Path) -> None:
    file = make_package(tmp_path)

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


@njit
def _cos_sin(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> None:
    for i in range(x.shape[0]):
        cosine[i], sine[i] = cos_sin(x[i])


def in_units_of_the_last_place(value: np.ndarray, reference: np.ndarray) -> float:
    return float((np.abs(value - reference) / np.spacing(np.abs(reference).astype(float))).max())


def test_cosines_and_sines() -> None:
    rng = np.random.default_rng(0)
    turns = np.arange(-4000, 4001) * (np.pi / 4.0)
    x = np.concatenate(
        [
            turns,  # next to zeros, where what is left of the angle is all there is
            np.nextafter(turns, np.inf),
            *(rng.uniform(-r, r, 20000) for r in (1e-9, 1.0, 10.0, REACH)),
            [REACH, -REACH, 1.1 * REACH, -1e9, 1e300],
        ]
    )
    cosine, sine = np.empty_like(x), np.empty_like(x)
    _cos_sin(x, cosine, sine)
    # Two units are promised; the reference may be off by half of one itself.
    assert in_units_of_the_last_place(cosine, np.cos(x.astype(np.longdouble))) < 2.5
    assert in_units_of_the_last_place(sine, np.sin(x.astype(np.longdouble))) < 2.5


@njit
def _sums(n: int, rounds: int) -> float:
    total = 0.0
    a = scratch(n)
    memory = scratch(2 * n)
    b = numbers(memory, 0, (n, 2))
    for _ in range(rounds):
        for i in range(n):
            a[i], b[i, 0], b[i, 1] = i, 2 * i, 3 * i
        for i in range(n):
            total += a[i] + b[i, 0] + b[i, 1]
    return total if memory.shape[0] == 2 * n else -1.0  # kept alive until here


@pytest.mark.parametrize("n", [0, 1, STACK_NUMBERS // 2, STACK_NUMBERS, 10 * STACK_NUMBERS])
def test_workspace_on_the_stack_or_not(n: int) -> None:
    assert _sums(n, 2) == 6.0 * n * (n - 1)


@compiled_borrowing
def allocate(count: int) -> float:
    return float(np.zeros(count)[0])


def test_a_kernel_that_creates_an_array_does_not_compile() -> None:
    with pytest.raises(TypingError):
        allocate(3)


def dispatchers(module: ModuleType) -> Iterator[Dispatcher]:
    """Yield the compiled functions that a module defines."""
    for each in vars(module).values():
        if isinstance(each, Dispatcher) and each.__module__ == module.__name__:
            yield each


@pytest.mark.parametrize("module", [decision, validity, acceptance, thresholds])
def test_the_loops_over_samples_borrow(module: ModuleType) -> None:
    """References that these loops counted took a third of the time of a replay."""
    found = [
        each
        for each in dispatchers(module)
        if module is not thresholds or "memory" in signature(each.py_func).parameters
    ]
    assert found
    counting = [each.py_func.__name__ for each in found if each.targetoptions.get("_nrt", True)]
    assert not counting
