"""Exported C, compiled and called from Python, and its differences from the library."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamics.helpers import random_q, relative

from bench.export.compilers import WARNINGS, Compiler, compilers
from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.export import CFiles

TOLERANCE = 1e-12
"""Roundoff of a few thousand operations; 1e-14 is usual."""

needs_compiler = pytest.mark.skipif(not compilers(), reason="no C compiler is installed")


class Code:
    """Exported functions, compiled.

    Args:
        files: the exported code.
        prefix: prefix of its C names.
        folder: where the files are written.
        options: further options of the compiler.
        compiler: the compiler; the first of this machine by default.
    """

    def __init__(
        self,
        files: CFiles,
        prefix: str,
        folder: Path,
        *options: str,
        compiler: Compiler | None = None,
    ) -> None:
        chosen = compiler or compilers()[0]
        header = folder / f"{prefix}.h"
        library = folder / f"{prefix}{len(options)}.so"
        options = (*WARNINGS, "-Werror", "-O1", "-fPIC", *options)
        source, code = files.write(header), library.with_suffix(".o")
        subprocess.run([*chosen.command, *options, "-c", source, "-o", code], check=True)
        # Linked without the options: a library linked with -ffast-math makes the whole process that
        # loads it flush subnormal numbers to zero.
        subprocess.run([*chosen.command, "-shared", code, "-o", library, "-lm"], check=True)
        self.library = ctypes.CDLL(str(library))
        self.prefix = prefix
        self.has_christoffel = f"{prefix}_christoffel_symbols(" in files.header
        self.kind: Any = np.float32 if "float q[" in files.header else np.float64

    def __call__(self, name: str, *inputs: Any, shape: Any) -> np.ndarray:
        """Return the last output, of ``shape``, of a function; the others are given as arrays."""
        result = np.full(shape, np.nan, self.kind)
        getattr(self.library, f"{self.prefix}_{name}")(*map(self._passed, inputs), pointer(result))
        return result

    def _passed(self, x: Any) -> Any:
        if isinstance(x, float):
            return (ctypes.c_float if self.kind is np.float32 else ctypes.c_double)(x)
        return pointer(np.ascontiguousarray(x, self.kind)) if isinstance(x, np.ndarray) else x


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p(array.ctypes.data)
    pointer.array = array  # type: ignore[attr-defined]  # keeps it alive
    return pointer


def largest_difference(code: Code, model: Model, rng: np.random.Generator) -> dict[str, float]:
    """Return the relative differences of all functions from the library's at one random state.

    Args:
        code: all functions that are exported by default.
        model: the model they belong to.
        rng: source of the state.
    """
    n, link = model.nv, model.joint_links[-1]
    q, (v, a, v_r, a_r) = random_q(model, rng), rng.uniform(-2.0, 2.0, (4, n))
    M, C, CTv, p = np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty(n)
    again = np.empty(n)
    pi = dynamics.inertial_parameters(model)
    pi *= rng.uniform(0.9, 1.1, pi.size)
    Y = dynamics.regressor(model, q, v, v_r, a_r)
    terms = dynamics.dynamics_terms(model, q, v)
    g = code("dynamics_terms", q, v, *map(pointer, (M, C, CTv)), shape=n)
    h = code("momentum_terms", q, v, *map(pointer, (p, again)), shape=n)
    pairs = {
        "M of terms": (M, terms.M),
        "C": (C, terms.C),
        "CTv": (CTv, terms.CTv),
        "g of terms": (g, terms.g),
        "p": (p, dynamics.momentum(model, q, v)),
        "CTv again": (again, terms.CTv),
        "g of momentum": (h, terms.g),
        "M": (code("mass_matrix", q, shape=(n, n)), terms.M),
        "g": (code("gravity_torque", q, shape=n), terms.g),
        "inverse": (
            code("inverse_dynamics", q, v, a, shape=n),
            dynamics.inverse_dynamics(model, q, v, a),
        ),
        "forward": (
            code("forward_dynamics", q, v, a, shape=n),
            dynamics.forward_dynamics(model, q, v, a),
        ),
        "Slotine-Li": (
            code("slotine_li_torque", q, v, v_r, a_r, shape=n),
            dynamics.slotine_li_torque(model, q, v, v_r, a_r),
        ),
        "Y pi": (code("regressor_product", q, v, v_r, a_r, pi, shape=n), Y @ pi),
        "placement": (
            code(f"frame_placement_{link}", q, shape=(4, 4)),
            dynamics.frame_placement(model, q, link),
        ),
        "Jacobian": (
            code(f"frame_jacobian_{link}", q, shape=(6, n)),
            dynamics.frame_jacobian(model, q, link),
        ),
    }
    if code.has_christoffel:
        Gamma = code("christoffel_symbols", q, shape=(n, n, n))
        pairs["Gamma"] = Gamma, dynamics.christoffel_symbols(model, q)
    return {name: relative(*pair) for name, pair in pairs.items()}
