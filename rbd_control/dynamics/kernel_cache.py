"""Machine code of kernels on disk, marked with the sources that it was made of.

**Digest of the sources that a compiled kernel is made of.**

Kernels inline helpers from other files, so the file of a kernel alone does not tell whether its
stored machine code is current. The digest covers the file and, transitively, every file that its
import statements name in the same package or in this one. It depends on the contents of the files
and their names in the package, not on times or places: copies, checkouts and installations of the
same sources share their compiled code.

**Machine code of kernels on disk: one file for each kernel and signature.**

numba's own cache stores an index file and data files for each kernel. If a process is killed
between writing the two, if two processes write at once, if the disk is full or a file is truncated,
the pair is inconsistent and every later start fails. A cache in a folder without write permission
is ignored. Here the name of a file contains a digest of everything that its code depends on, and a
file is written under a temporary name and then renamed. A file is therefore either complete or was
damaged later, which the digest in its header reveals.

Failures of files and folders raise no exception: the kernel is compiled again, in memory if
necessary. The process logs one warning about the first file that is ignored, and one if code cannot
be stored, with the place and the reason.

A user who can write to a folder of compiled code can make its readers execute code, as with the
sources. Files that belong neither to the user, nor to root, nor to the owner of the sources are
therefore ignored.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

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


MAGIC = b"rbd_control kernel 1\n"
"""First bytes of a file of compiled code; the number grows when the layout changes."""

LARGEST = 64 * 2**20
"""Size above which a file cannot be compiled code of this package [bytes]; kernels take 0.2 MB."""

KEPT = 64
"""Number of files kept for one kernel in a folder; older ones are removed.

The files differ in the version of the sources, the processor, the signature or the frozen model.
"""

ABANDONED = 600.0
"""Age from which a temporary file belongs to a process that was killed while it wrote [s]."""

_DIGEST = hashlib.sha256().digest_size
_SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")
"""Settings of numba (NUMBA_...) that change the machine code."""

_log = logging.getLogger(__name__)


@dataclass
class CacheUse:
    """Use of compiled code on disk by this process.

    Attributes:
        loaded: folders from which code was loaded.
        stored: folders in which code was stored.
        discarded: files that could not be read, were damaged or belong to an untrusted owner.
        refused: folders in which code could not be stored, with the reason.
        has_warned: whether the warning about such folders has been logged.
    """

    loaded: set[Path] = field(default_factory=set)
    stored: set[Path] = field(default_factory=set)
    discarded: list[Path] = field(default_factory=list)
    refused: dict[Path, str] = field(default_factory=dict)
    has_warned: bool = False

    def discard(self, file: Path, reason: str) -> None:
        """Add a file of compiled code that is not loaded to ``discarded``; it is not deleted.

        The first call logs a warning with the file and ``reason``.
        """
        if not self.discarded:
            _log.warning("ignored compiled code in %s (%s)", file, reason)
        self.discarded.append(file)

    def refuse(self, refused: dict[Path, str]) -> None:
        """Record folders in which no code could be stored; log a warning at the first call only.

        ``refused`` has the reason for each folder; empty if there is no folder at all.
        """
        self.refused.update(refused)
        if not self.has_warned:
            self.has_warned = True
            places = ", ".join(f"{folder} ({reason})" for folder, reason in refused.items())
            _log.warning(
                "cannot keep compiled code in %s: every start compiles, which takes up to a "
                "minute; set NUMBA_CACHE_DIR to a folder that can be written",
                places or "any folder",
            )


use = CacheUse()
"""Use of the disk by all kernels of this process."""


class KernelCache:
    """Loads and stores the machine code of one kernel for numba's dispatcher.

    The class has the methods of ``numba.core.caching._Cache`` and uses numba's serialization of
    compiled functions, which is the same in versions 0.58 to 0.68. With a version that serializes
    differently, kernels are compiled at every start, and the warning is logged.

    Args:
        function: the Python function of the kernel.
        options: compiler options of the kernel.

    Raises:
        OSError: when the source of the function cannot be read.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function = function
        self._file = Path(function.__code__.co_filename)
        self._stamp = source_stamp(self._file)
        self._owner = self._file.stat().st_uid
        self._options = options
        self._enabled = True
        self._name = re.sub(r"[^\w.]", "", f"{self._file.stem}.{function.__qualname__}")

    @property
    def cache_path(self) -> str:
        """Return the folder that is searched first for code."""
        return str(next(iter(folders(self._file))))

    def enable(self) -> None:
        """Load and store compiled code from now on, as a new cache does."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor store compiled code from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Remove the stored code of this kernel for all signatures; errors are ignored."""
        for folder in folders(self._file):
            for file in self._stored_in(folder):
                with suppress(OSError):
                    file.unlink()

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return the code for a signature; None if no usable file has it or the cache is disabled.

        Args:
            sig: numba's signature of the call, or the tuple of its argument types.
            target_context: numba's context of the processor.
        """
        if not self._enabled:
            return None
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in folders(self._file):
            file = self._path(folder, key)
            try:
                payload = _read(file, key, self._owner)
                if payload is None:
                    continue
                result = CompileResult._rebuild(target_context, *pickle.loads(payload))
            except Exception as error:
                use.discard(file, _reason(error))
                continue
            use.loaded.add(folder)
            return result
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for a signature in the first folder that can be written.

        Nothing is stored if the cache is disabled or the code cannot be used by another process.
        If every folder fails, :data:`use` records the reasons.

        Args:
            sig: numba's signature of the call, or the tuple of its argument types.
            data: numba's result of the compilation.
        """
        if not self._enabled or data.lifted or data.library.has_dynamic_globals:
            return
        refused: dict[Path, str] = {}
        for folder in folders(self._file):
            try:
                key = self._key(sig, data.codegen)
                self._store(folder, key, dumps(data._reduce()))
            except Exception as error:
                refused[folder] = _reason(error)
            else:
                use.stored.add(folder)
                return
        use.refuse(refused)

    def _store(self, folder: Path, key: bytes, payload: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._tidy(folder)
        file = self._path(folder, key)
        temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as f:
                f.write(MAGIC + key + hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, file)
        finally:
            with suppress(OSError):  # there is none left unless something went wrong
                temporary.unlink()

    def _tidy(self, folder: Path) -> None:
        """Remove the oldest code of this kernel, and its temporary files from killed processes."""
        for file in folder.glob(f".{self._name}-*.tmp"):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > ABANDONED:
                    file.unlink()
        with suppress(OSError):
            by_age = sorted(self._stored_in(folder), key=lambda file: file.stat().st_mtime)
            for file in by_age[: -KEPT + 1]:
                file.unlink()

    def _stored_in(self, folder: Path) -> list[Path]:
        return list(folder.glob(f"{self._name}-{'[0-9a-f]' * 32}.nbc"))

    def _path(self, folder: Path, key: bytes) -> Path:
        return folder / f"{self._name}-{key.hex()[:32]}.nbc"

    def _key(self, sig: Any, codegen: Any) -> bytes:
        """Return a digest of all that the machine code for a signature depends on."""
        function = self._function
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        parts = (
            (sys.implementation.cache_tag, getattr(sys, "abiflags", "")),
            (numba.__version__, llvmlite.__version__, np.__version__),
            [(name, getattr(config, name, None)) for name in _SETTINGS],
            codegen.magic_tuple(),
            (function.__module__, function.__qualname__, function.__code__.co_firstlineno),
            self._stamp,
            hashlib.sha256(function.__code__.co_code).digest(),
            hashlib.sha256(dumps(cells)).digest() if cells else b"",
            sorted(self._options.items()),
            [repr(argument) for argument in getattr(sig, "args", sig)],
        )
        return hashlib.sha256(repr(parts).encode()).digest()


def folders(source: Path) -> Iterator[Path]:
    """Yield the folders that may hold the compiled code of a source file, in order of preference.

    If ``NUMBA_CACHE_DIR`` is set, its sub-folder ``rbd_control`` is the only one. Otherwise they
    are ``__pycache__`` beside the source, then ``rbd_control`` in the user's cache folder
    (``XDG_CACHE_HOME`` or ``~/.cache``; ``LOCALAPPDATA`` on Windows).
    """
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / "rbd_control"
        return
    yield source.parent / "__pycache__"
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home folder
        yield (Path(base) if base else Path.home() / ".cache") / "rbd_control"


def _read(file: Path, key: bytes, owner: int) -> bytes | None:
    """Return the payload of a file of compiled code; None if the file does not exist.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not a regular file, belongs neither to the user, root nor ``owner``, is
            larger than :data:`LARGEST`, or its content is not what was written for ``key``.
    """
    try:
        # A pipe of this name would wait for a writer for ever.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        if hasattr(os, "geteuid") and status.st_uid not in (os.geteuid(), 0, owner):
            raise ValueError(f"belongs to user {status.st_uid}")
        if status.st_size > LARGEST:
            raise ValueError(f"{status.st_size} bytes long")
        content = stream.read()
    begin = len(MAGIC) + 2 * _DIGEST
    if content[: begin - _DIGEST] != MAGIC + key:
        raise ValueError("not the code of this kernel")
    payload = content[begin:]
    if hashlib.sha256(payload).digest() != content[begin - _DIGEST : begin]:
        raise ValueError("damaged")
    return payload


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
