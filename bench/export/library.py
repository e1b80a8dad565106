"""Generated C code, compiled with a loop around each function, so that the loop can be timed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np

from bench.speed.measure import Run
from bench.speed.quantities import Contestant, Quantity, Results, States

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"
OPTIONS = ("-O3", "-march=native", "-fPIC", "-shared")
"""Compiler options; -std=c99 is omitted, because it keeps gcc from generating fused multiply-adds.

CasADi's code can use this instruction in no other way.
"""

NAMES = {
    Quantity.TERMS: "dynamics_terms",
    Quantity.MASS: "mass_matrix",
    Quantity.CHRISTOFFEL: "christoffel_symbols",
    Quantity.INVERSE: "inverse_dynamics",
    Quantity.FORWARD: "forward_dynamics",
    Quantity.SLOTINE_LI: "slotine_li_torque",
}
"""Quantities that are exported and timed."""

INPUTS = ("q", "v", "x", "y")

_LOOP = """
void loop_{name}(long calls, long count, const double *q, const double *v, const double *x,
                 const double *y, double *out)
{{
    long call, s = 0;
    (void)v; (void)x; (void)y;
    for (call = 0; call < calls; call++) {{
        {call};
        s = s + 1 < count ? s + 1 : 0;
    }}
}}
"""


def sizes(quantity: Quantity, n: int) -> tuple[int, ...]:
    """Return the number of values of each output of a quantity, for ``n`` degrees of freedom."""
    if quantity is Quantity.TERMS:
        return n * n, n * n, n, n
    return ({Quantity.MASS: n * n, Quantity.CHRISTOFFEL: n**3}.get(quantity, n),)


def loop(name: str, call: str) -> str:
    """Return the C source of a function ``loop_<name>`` that calls a function in a loop.

    Args:
        name: name of the called function.
        call: C expression that computes the state number ``s`` and writes to ``out``.
    """
    return _LOOP.format(name=name, call=call)


def state(inputs: int, nq: int, nv: int) -> list[str]:
    """Return C expressions for the inputs of a call with the state number ``s``.

    Args:
        inputs: number of inputs, in the order q, v, x, y.
        nq, nv: lengths of q and of the other inputs.
    """
    return [f"{name} + s * {nq if name == 'q' else nv}" for name in INPUTS[:inputs]]


def compiler() -> str:
    """Return the command of the C compiler: the variable ``CC``, else gcc, else cc.

    Raises:
        RuntimeError: if no C compiler is installed.
    """
    found = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not found:
        raise RuntimeError("no C compiler; install gcc")
    return found


def by_processor(run: Run) -> Run:
    """Return a run (a function of the number of calls) that returns its processor time [s]."""

    def timed(calls: int) -> float:
        start = thread_time()
        run(calls)
        return thread_time() - start

    return timed


@dataclass(frozen=True)
class Library:
    """A shared library compiled from generated C code.

    Attributes:
        path: path of the shared library.
        seconds: compile time [s]; 0 if the library exists from an earlier run.
        source_bytes: size of the generated code, without the loops [bytes].
    """

    path: Path
    seconds: float
    source_bytes: int

    @classmethod
    def of(cls, title: str, source: str, *more: str) -> Library:
        """Compile a source, unless its library exists already.

        Args:
            title: prefix of the names of the files.
            source: text of the generated code.
            more: text that is appended, such as loops.

        Raises:
            RuntimeError: if no C compiler is installed.
            CalledProcessError: if the compiler fails.
        """
        command = [compiler(), *OPTIONS]
        text = "\n".join([source, *more])
        digest = hashlib.sha256("\n".join([*command, text]).encode()).hexdigest()[:16]
        path = FOLDER / f"{title}-{digest}.so"
        seconds = 0.0
        if not path.exists():
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".c").write_text(text, encoding="utf-8")
            part = path.with_suffix(".part")
            begin = perf_counter()
            subprocess.run([*command, path.with_suffix(".c"), "-o", part, "-lm"], check=True)
            seconds = perf_counter() - begin
            part.replace(path)
        return cls(path, seconds, len(source.encode()))

    def contestant(
        self,
        quantity: Quantity,
        states: States,
        outputs: Callable[[Sequence[np.ndarray]], Results],
        of_sizes: Sequence[int] = (),
        *,
        clock: Callable[[], float] = thread_time,
    ) -> Contestant:
        """Return the loop of one quantity as a contestant, which can be timed and compared.

        Args:
            quantity: quantity that the loop computes.
            states: states of the loop.
            outputs: converts the numbers of each output to results.
            of_sizes: number of values of each output; by default the result of :func:`sizes`.
            clock: returns the time that is measured [s].
        """
        function = getattr(ctypes.CDLL(str(self.path)), f"loop_{NAMES[quantity]}")
        function.restype = None
        count, n = states.v.shape
        chosen = of_sizes or sizes(quantity, n)
        out = np.full(sum(chosen), np.nan)
        arrays = [np.ascontiguousarray(x) for x in (states.q, states.v, states.x, states.y)]
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*arrays, out)]

        def run(calls: int) -> float:
            start = clock()
            function(ctypes.c_long(calls), ctypes.c_long(count), *pointers)
            return clock() - start

        def result() -> Results:
            assert arrays  # they must live as long as their pointers
            out.fill(np.nan)
            run(1)
            return outputs(np.split(out, np.cumsum(chosen)[:-1]))

        return Contestant(run, result)


def shown(quantity: Quantity, values: Sequence[np.ndarray]) -> Results:
    """Return the outputs of a quantity that all contestants have, as arrays; this excludes Cᵀ v.

    Args:
        quantity: the quantity.
        values: the values of each output, flat.
    """
    n = round(values[0].size ** (1 / 3 if quantity is Quantity.CHRISTOFFEL else 0.5))
    if quantity is Quantity.TERMS:
        return values[0].reshape(n, n), values[1].reshape(n, n), values[-1].copy()
    if quantity is Quantity.MASS:
        return (values[0].reshape(n, n),)
    if quantity is Quantity.CHRISTOFFEL:
        return (values[0].reshape(n, n, n),)
    return (values[0].copy(),)
