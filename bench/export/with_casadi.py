"""C code of Pinocchio's algorithms, run on CasADi expressions, from CasADi's code generator.

The Python wheels of Pinocchio lack this interface, so a C++ program uses the headers of both
wheels. It generates code for the quantities that Pinocchio has functions for: M, C and g together,
M, RNEA, ABA, and the Slotine-Li torque as M a_r + C v_r + g.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from time import thread_time

from bench.export.library import FOLDER, NAMES, Library, loop, shown, sizes, state
from bench.speed.quantities import Contestant, Quantity
from bench.speed.with_pinocchio import Twin
from bench.speed.with_pinocchio_cpp import OPTIONS

SOURCE = Path(__file__).with_name("casadi_pinocchio.cpp")
QUANTITIES = tuple(quantity for quantity in NAMES if quantity is not Quantity.CHRISTOFFEL)


class Generator:
    """Builds the C++ program that generates the code; the first build takes some minutes.

    Attributes:
        problem: reason why the program could not be built; empty on success.
    """

    def __init__(self) -> None:
        self.problem = ""
        try:
            command, environment = _command()
        except (PackageNotFoundError, FileNotFoundError) as error:
            self.problem = f"{error}; install casadi, pin and cmeel-eigen, and a C++ compiler"
            return
        self._environment = environment
        key = "\n".join([*command, SOURCE.read_text(encoding="utf-8")])
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._program = FOLDER / f"casadi-pinocchio-{digest}"
        if not self._program.exists():
            FOLDER.mkdir(parents=True, exist_ok=True)
            part = self._program.with_suffix(".part")
            done = subprocess.run([*command, "-o", part], capture_output=True, check=False)
            if done.returncode != 0:
                log = self._program.with_suffix(".log")
                log.write_bytes(done.stderr)
                self.problem = f"the C++ compiler failed, see {log}"
                return
            part.replace(self._program)

    def source(self, twin: Twin) -> str:
        """Generate and return the C code of a robot; :attr:`problem` must be empty.

        Raises:
            CalledProcessError: if the program fails.
        """
        saved = twin.model.saveToString()
        stem = self._program.with_name(f"casadi_{hashlib.sha256(saved.encode()).hexdigest()[:16]}")
        stem.with_suffix(".txt").write_text(saved, encoding="utf-8")
        command = [str(self._program), str(stem.with_suffix(".txt")), str(stem.with_suffix(".c"))]
        subprocess.run(command, env=self._environment, check=True)
        return stem.with_suffix(".c").read_text(encoding="utf-8")


def _command() -> tuple[list[str], dict[str, str]]:
    """Return the command that builds the program, and its environment variables."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise FileNotFoundError("no C++ compiler")
    pin = Path(str(distribution("pin").locate_file("cmeel.prefix")))
    eigen = Path(str(distribution("cmeel-eigen").locate_file("cmeel.prefix/include/eigen3")))
    casadi = Path(str(distribution("casadi").locate_file("casadi")))
    # No optimisation: the program runs once, and its templates take long to compile.
    options = [o for o in OPTIONS if o not in ("-shared", "-fPIC", "-O3")]
    options.append("-DBOOST_FUSION_INVOKE_MAX_ARITY=10")
    command = [
        *(compiler, "-O0", *options),
        *("-isystem", str(pin / "include"), "-isystem", str(eigen)),
        *("-isystem", str(casadi / "include"), str(SOURCE)),
        *(
            f"-L{pin / 'lib'}",
            "-lpinocchio_default",
            "-lboost_serialization",
            f"-L{casadi}",
            "-lcasadi",
        ),
        *(f"-Wl,-rpath,{pin / 'lib'}", f"-Wl,-rpath,{casadi}"),
    ]
    return command, dict(os.environ)


def library(source: str, twin: Twin) -> Library:
    """Compile generated code with a loop around each function; reuse an existing library.

    Args:
        source: the code from :meth:`Generator.source`.
        twin: the robot in Pinocchio.
    """
    n, nq = twin.model.nv, twin.model.nq
    loops = []
    for quantity in QUANTITIES:
        given = state(len(twin.states.inputs(quantity)), nq, n)
        results, first = [], 0
        for size in _sizes(quantity, n):
            results.append(f"out + {first}")
            first += size
        call = (
            f"{{ const double *arg[16] = {{{', '.join(given)}}}; "
            f"double *res[16] = {{{', '.join(results)}}}; "
            f"{NAMES[quantity]}(arg, res, 0, work, 0); }}"
        )
        loops.append(loop(NAMES[quantity], call))
    return Library.of("casadi", source, "static double work[1000000];", *loops)


def _sizes(quantity: Quantity, n: int) -> tuple[int, ...]:
    every = sizes(quantity, n)
    # CasADi's terms are M, C and g.
    return (*every[:2], every[3]) if quantity is Quantity.TERMS else every


def contestant(
    compiled: Library, twin: Twin, quantity: Quantity, clock: Callable[[], float] = thread_time
) -> Contestant:
    """Return the loop of one quantity as a contestant, with results in our order of joints.

    Args:
        compiled: result of :func:`library`.
        twin: the robot in Pinocchio.
        quantity: one of :data:`QUANTITIES`.
        clock: returns the time that is measured [s].
    """
    n = twin.model.nv
    return compiled.contestant(
        quantity,
        twin.states,
        lambda values: twin.ours(*shown(quantity, values)),
        _sizes(quantity, n),
        clock=clock,
    )
