"""Digest of the sources that a compiled kernel is made of.

Kernels inline helpers from other files, so the file of a kernel alone does not tell whether its
stored machine code is current. The digest covers the file and, transitively, every file that its
import statements name in the same package or in this one. It depends on the contents of the files
and their names in the package, not on times or places: copies, checkouts and installations of the
same sources share their compiled code.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_OWN_ROOT = Path(__file__).resolve().parent.parent
"""Folder of this package, whose kernels other packages may inline."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|.*)"
    r"|import[ \t]+(?P<modules>.*))",
    re.MULTILINE,
)
"""An import statement. Parsing the files with ``ast`` takes a hundred times as long."""


@cache
def source_stamp(file: Path) -> bytes:
    """Return the SHA-256 digest of ``file`` and of all package files that it imports.

    The result is cached, so later changes of the files in the same process have no effect.

    Args:
        file: the Python file that contains a kernel.

    Raises:
        OSError: when a file cannot be read.
    """
    digest = hashlib.sha256()
    for found in sorted(dependencies(file), key=_package_path):
        digest.update(_package_path(found).encode() + b"\0" + _content_digest(found))
    return digest.digest()


def dependencies(file: Path) -> frozenset[Path]:
    """Return ``file`` and, transitively, the package files that its import statements name.

    Package files are those of the outermost package of ``file`` and of ``rbd_control``.

    Raises:
        OSError: when a file cannot be read.
    """
    found, new = {file}, {file}
    while new:
        new = set().union(*map(_imported, new)) - found
        found |= new
    return frozenset(found)


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _content_digest(file: Path) -> bytes:
    return hashlib.sha256(_content(file)).digest()


@cache
def _root(folder: Path) -> Path | None:
    """Return the folder of the outermost package that ``folder`` belongs to; None if in none."""
    root = None
    while (folder / "__init__.py").is_file():
        root, folder = folder, folder.parent
    return root


def _package_path(file: Path) -> str:
    """Return the path of ``file`` from its outermost package on; its name if it is in none."""
    root = _root(file.parent)
    return file.relative_to(root.parent).as_posix() if root else file.name


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the package files that the import statements of ``file`` name."""
    found: set[Path] = set()
    for statement in _IMPORT.finditer(_content(file).decode("utf-8", errors="replace")):
        if statement["modules"]:
            for part in statement["modules"].split("#")[0].split(","):
                found.update(_files(file, part.split()[0] if part.split() else "", ("*",)))
        else:
            found.update(_files(file, statement["source"], _names(statement["names"])))
    return frozenset(found)


def _names(text: str) -> tuple[str, ...]:
    """Return the names after ``from ... import``; ``*`` when a comment stands between them."""
    if text.startswith("(") and "#" in text:
        return ("*",)
    parts = text.split("#")[0].strip("()\\ \t").replace("\n", " ").split(",")
    return tuple(part.split()[0] for part in parts if part.split())


def _files(file: Path, module: str, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files that ``from module import names`` in ``file`` may take code from."""
    place = _place(file, module)
    if place is None:
        return
    if place.with_suffix(".py").is_file():
        yield place.with_suffix(".py")
    elif (place / "__init__.py").is_file():
        modules = [(place / name).with_suffix(".py") for name in names if name != "*"]
        yield from (path for path in modules if path.is_file())
        # A name that the package takes from one of its modules, or a package within it.
        if len(modules) < len(names) or not all(path.is_file() for path in modules):
            yield place / "__init__.py"


def _place(file: Path, module: str) -> Path | None:
    """Return the path of ``module`` without suffix, for an import statement in ``file``.

    It is None for a module that is neither in the package of ``file`` nor in ``rbd_control``.
    """
    if module.startswith("."):
        parts = module.lstrip(".")
        folder = file.parent
        for _ in range(len(module) - len(parts) - 1):
            folder = folder.parent
        return folder.joinpath(*filter(None, parts.split(".")))
    top, *rest = module.split(".")
    for root in (_root(file.parent), _OWN_ROOT):
        if root is not None and root.name == top:
            return root.joinpath(*rest)
    return None
