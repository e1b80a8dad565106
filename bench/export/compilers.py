"""C compilers of this machine, and their warnings about a source."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic")
"""Options under which exported code compiles without a warning."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler.

    Attributes:
        name: ``gcc``, ``clang``, ``cc``, or ``zig`` for the clang in the wheel ``ziglang``.
        command: the command, without options.
    """

    name: str
    command: tuple[str, ...]

    def version(self) -> str:
        """Return the first line that the compiler prints about its version."""
        command = [*self.command, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return (done.stdout.splitlines() or ["unknown"])[0]

    def complaint(self, source: Path, *options: str) -> str:
        """Return the warnings and errors of the compiler about a source, or an empty text.

        Args:
            source: a C file. The object file is written beside it.
            options: further options.
        """
        target = source.with_suffix(f".{self.name}.o")
        command = [*self.command, *WARNINGS, *options, "-c", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and not done.stderr.strip():
            return f"{self.name} ended with exit code {done.returncode}"
        return done.stderr.strip()


@cache
def compilers() -> tuple[Compiler, ...]:
    """Return gcc and clang, as far as they are installed; empty without a compiler.

    The clang of the wheel ``ziglang`` is used if no other clang is installed. If neither gcc nor a
    clang is found, ``cc`` is used.
    """
    found = [Compiler(name, (path,)) for name in ("gcc", "clang") if (path := shutil.which(name))]
    if not shutil.which("clang") and importlib.util.find_spec("ziglang"):
        # Without the option, zig adds checks for undefined behaviour.
        command = (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined")
        found.append(Compiler("zig", command))
    cc = shutil.which("cc")
    return tuple(found) or ((Compiler("cc", (cc,)),) if cc else ())
