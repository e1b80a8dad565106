"""Pinocchio called from C++: ``pinocchio.cpp``, built with the headers in Pinocchio's wheel.

The library in the wheel contains the compiled algorithms, and Pinocchio's build files use them
(``PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION``). Compiling the algorithms anew with ``-O3``, with or
without ``-march=native``, took longer and gave no faster code.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

from bench.speed.quantities import Contestant, Quantity, Results
from bench.speed.with_pinocchio import Twin

SOURCE = Path(__file__).with_name("pinocchio.cpp")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"
OPTIONS = (
    *("-shared", "-fPIC", "-std=c++17", "-O3", "-DNDEBUG"),
    "-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
)

_NUMBERS: dict[Quantity, int] = {
    Quantity.MASS: 0,
    Quantity.CORIOLIS: 1,
    Quantity.TERMS: 2,
    Quantity.CHRISTOFFEL: 3,
    Quantity.INVERSE: 4,
    Quantity.FORWARD: 5,
    Quantity.ROTORS: 5,
    Quantity.SLOTINE_LI: 6,
    Quantity.GDAHJ: 0,
}


class Build:
    """Compiles ``pinocchio.cpp`` in some two minutes, and keeps the result for later runs.

    The compiler is started in the background; :meth:`wait` waits for its end.

    Attributes:
        problem: reason why the library could not be built; empty without a problem.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._process: subprocess.Popen[bytes] | None = None
        prefix = Path(str(distribution("pin").locate_file("cmeel.prefix")))
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        eigen = prefix / "include" / "eigen3"
        if not compiler:
            self.problem = "no C++ compiler"
            return
        if not eigen.is_dir():
            self.problem = "no Eigen headers; install cmeel-eigen"
            return
        command = [
            *(compiler, *OPTIONS, "-isystem", str(prefix / "include"), "-isystem", str(eigen)),
            *(str(SOURCE), f"-L{prefix / 'lib'}", "-lpinocchio_default"),
            f"-Wl,-rpath,{prefix / 'lib'}",
        ]
        key = [*command, distribution("pin").version, SOURCE.read_text(encoding="utf-8")]
        digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
        self.path = FOLDER / f"pinocchio-{digest}.so"
        self._log = self.path.with_suffix(".log")
        self._part = self.path.with_suffix(".part")
        if self.path.exists():
            return
        FOLDER.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-o", str(self._part)], stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def running(self) -> bool:
        """Whether the compiler is still running."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> Library | None:
        """Wait for the compiler and return the library.

        If it could not be built, return None and set :attr:`problem`.
        """
        if self.problem:
            return None
        if self._process is not None:
            if self._process.wait() != 0:
                self.problem = f"the compiler failed, see {self._log}"
                return None
            self._part.replace(self.path)
            self._process = None
        return Library(self.path)


class Library:
    """The compiled ``pinocchio.cpp``.

    Args:
        path: path of the shared library.
    """

    def __init__(self, path: Path) -> None:
        numbers = ctypes.POINTER(ctypes.c_double)
        self._library = ctypes.CDLL(str(path))
        self._new = self._library.robot_new
        self._new.restype = ctypes.c_void_p
        self._new.argtypes = [ctypes.c_char_p, ctypes.c_int, *[numbers] * 4]
        self._time = self._library.robot_time
        self._time.restype = ctypes.c_double
        self._time.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        self._results = self._library.robot_results
        self._results.restype = None
        self._results.argtypes = [ctypes.c_void_p, *[numbers] * 3]
        self._robot = lru_cache(maxsize=None)(self._made)

    def contestant(self, twin: Twin, quantity: Quantity) -> Contestant:
        """Return a contestant that calls Pinocchio from C++.

        Its robot stays in memory until the process ends.
        """
        number, n = _NUMBERS[quantity], twin.model.nv
        robot = self._robot(twin, quantity is Quantity.ROTORS)

        def run(calls: int) -> float:
            return float(self._time(robot, number, calls))

        def result() -> Results:
            run(1)
            M, C, vectors = np.empty((n, n)), np.empty((n, n)), np.empty((4, n))
            self._results(robot, _pointer(M), _pointer(C), _pointer(vectors))
            g, inverse, forward, slotine_li = vectors
            return twin.ours(
                *{
                    Quantity.MASS: (M,),
                    Quantity.CORIOLIS: (C,),
                    Quantity.TERMS: (M, C, g),
                    Quantity.CHRISTOFFEL: (),
                    Quantity.INVERSE: (inverse,),
                    Quantity.FORWARD: (forward,),
                    Quantity.ROTORS: (forward,),
                    Quantity.SLOTINE_LI: (slotine_li,),
                    Quantity.GDAHJ: (M,),
                }[quantity]
            )

        return Contestant(run, result)

    def _made(self, twin: Twin, geared: bool) -> Any:
        s = twin.states
        saved = (twin.geared if geared else twin.model).saveToString().encode()
        states = map(np.ascontiguousarray, (s.q, s.v, s.x, s.y))
        return self._new(saved, s.q.shape[0], *map(_pointer, states))


def _pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
