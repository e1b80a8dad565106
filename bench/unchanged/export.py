"""Text of the exported C files of several robots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.unchanged.arms import crane_urdf
from bench.unchanged.commands import run
from bench.unchanged.store import Case


def cases(data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the files of the arm of the package, of a small arm, and of all URDFs in ``data``."""
    with TemporaryDirectory() as folder:
        crane = Path(folder) / "crane.urdf"
        crane.write_text(crane_urdf(), encoding="utf-8")
        yield _exported("arm7", "arm7")
        yield _exported("crane", crane, "--functions", "all", "--link", "all")
        yield _exported("crane in single precision", crane, "--float")
    for folder_of_data in data:
        for urdf in sorted(folder_of_data.glob("*.urdf")):
            yield _exported(urdf.stem, urdf)


def _exported(name: str, urdf: object, *options: str) -> tuple[str, Case]:
    with TemporaryDirectory() as folder:
        return name, run(["export", urdf, "--to", Path(folder) / "arm.h", *options], Path(folder))
