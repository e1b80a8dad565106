"""Copy of the repository in which mutants of the package are judged by the ordinary tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.mutations.mutants import PACKAGE, Mutant

_NOT_COPIED = shutil.ignore_patterns(".*", "*.egg-info", "build", "install", "log", "report")
_LONGEST = 900.0
"""Time after which the tests of one mutant are ended [s]."""
_FAILED = re.compile(r"^FAILED (?P<test>.+?)(?: - (?P<reason>.*))?$", re.MULTILINE)
_NOT_RUN = ("AttributeError", "ImportError", "ModuleNotFoundError", "NameError", "SyntaxError")
"""Errors by which a test fails because the mutant itself is not correct Python code."""


class CopiedPackage:
    """A temporary copy of the repository; use :meth:`made`.

    The copy contains the tests as well, because pytest puts the folder of ``pyproject.toml`` first
    in the search path. Compiled kernels are copied: their names contain a digest of the sources, so
    that a mutant compiles again only the kernels that depend on its file.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._witness = root / "mutant was imported"

    @classmethod
    @contextmanager
    def made(cls, repository: Path) -> Iterator[CopiedPackage]:
        """Copy the repository for the time of the ``with`` block."""
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            root = Path(folder) / "copy"
            shutil.copytree(repository, root, ignore=_NOT_COPIED, symlinks=True)
            yield cls(root)

    def require_sound(self, tests: Sequence[str]) -> float:
        """Run tests without a mutant, and return the time [s].

        Raises:
            RuntimeError: if one of them fails: its failure would not show that a mutant was found.
        """
        begin = time.perf_counter()
        code, output = self._pytest(tests)
        if code != 0:
            raise RuntimeError(f"the tests do not pass without a mutant:\n{output[-4000:]}")
        return time.perf_counter() - begin

    def find(self, mutant: Mutant) -> tuple[str, float]:
        """Run the tests of a mutant with the mutant in the package.

        Returns:
            The first test that failed (empty if the mutant was not found), and the time [s].

        Raises:
            LookupError: if the text that the mutant replaces is gone, or no test imports the file.
            RuntimeError: if pytest ended neither with passed nor with failed tests, or the test
                failed because the mutant is no correct code.
        """
        file = self._root / PACKAGE / mutant.file
        source = file.read_text(encoding="utf-8")
        mutated = mutant.mutate(source)
        self._witness.unlink(missing_ok=True)
        begin = time.perf_counter()
        # The added statement shows that the tests, or processes that they start, import the mutant.
        file.write_text(f"{mutated}\nopen({str(self._witness)!r}, 'a').close()\n", encoding="utf-8")
        try:
            code, output = self._pytest(mutant.tests)
        finally:
            file.write_text(source, encoding="utf-8")
        seconds = time.perf_counter() - begin
        if not self._witness.exists():
            raise LookupError(f"mutant {mutant.number}: its tests do not import {mutant.file}")
        failed = _FAILED.search(output)
        if code == 0:
            return "", seconds
        if code != 1 or failed is None or (failed["reason"] or "").startswith(_NOT_RUN):
            raise RuntimeError(
                f"mutant {mutant.number}: pytest ended with {code}\n{output[-4000:]}"
            )
        return failed["test"].removeprefix("test/"), seconds

    def _pytest(self, tests: Sequence[str]) -> tuple[int, str]:
        """Run tests until the first failure; return pytest's exit code and its output."""
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-rf", "--tb=short"),
                *("-p", "no:cacheprovider"),
                *(f"test/{test}" for test in tests),
            ],
            cwd=self._root,
            env={
                **os.environ,
                "PYTHONPATH": str(self._root),
                "COLUMNS": "400",
                "ROS_LOG_DIR": str(self._root / "log"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
        return ran.returncode, ran.stdout
