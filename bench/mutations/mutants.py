"""Kind of defect that replaces one line of text in one source file of the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PACKAGE = "rbd_control"


@dataclass(frozen=True)
class Mutant:
    """A defect as a replacement of text, and the tests that should find it.

    Attributes:
        number: number of the mutant, different from those of ``defects.DEFECTS``.
        area: part of the package.
        text: what goes wrong for the user.
        file: source file, relative to the package.
        old: text that is replaced; it must occur exactly once in the file.
        new: text that replaces it.
        tests: node ids or files of pytest, relative to ``test``.
    """

    number: int
    area: str
    text: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutate(self, source: str) -> str:
        """Return the source of ``file`` with the defect.

        Raises:
            LookupError: if ``old`` does not occur exactly once.
            SyntaxError: if the result is no Python code.
        """
        count = source.count(self.old)
        if count != 1:
            raise LookupError(
                f"mutant {self.number}: {self.old!r} occurs {count} times in {PACKAGE}/{self.file} "
                "instead of once; correct bench/mutations/text_defects.py"
            )
        mutated = source.replace(self.old, self.new)
        compile(mutated, self.file, "exec")
        return mutated

    def check(self, root: Path) -> None:
        """Check that the sources below ``root`` have the text that is replaced, and the tests.

        Raises:
            LookupError: if the text does not occur exactly once, or a file of tests is missing.
            OSError: if the source file cannot be read.
            SyntaxError: if the mutated source is no Python code.
        """
        self.mutate((root / PACKAGE / self.file).read_text(encoding="utf-8"))
        for test in self.tests:
            file, *names = test.split("::")
            path = root / "test" / file
            name = names[-1].split("[")[0] if names else ""
            if not path.is_file() or f"def {name}" not in path.read_text(encoding="utf-8"):
                raise LookupError(f"mutant {self.number}: there is no test {test}")
