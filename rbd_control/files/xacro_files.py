"""Robot descriptions as xacro files with arguments: ``ur.urdf.xacro name:=ur ur_type:=ur10e``.

Wherever the path of a description is given, arguments may follow the path of a xacro file. The
package xacrodoc expands the file and finds the packages of ``$(find ...)``, also in a checkout
without ROS. Released ROS packages cannot depend on it, because it is distributed on PyPI.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from xml.sax.saxutils import escape

from rbd_control.errors import ModelError
from rbd_control.files.input_files import is_absent, reason
from rbd_control.wording import listed, quoted

_SOURCE = re.compile(r"(.*?\.xacro)(\s+['\"]?\w+:=.*)?", re.DOTALL)
"""Path of a xacro file, and its arguments."""

_ARGUMENT = re.compile(r"\w+:=.*", re.DOTALL)


class _Arguments(dict[str, str]):
    """Arguments of a xacro file; ``known`` are the names that the file declares or reads.

    xacro asks for each of them whether it is given, and ignores all others.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.known: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.known.add(str(name))
        return super().__contains__(name)


def is_xacro(source: str | os.PathLike[str]) -> bool:
    """Return whether a description is a xacro file, with or without arguments; read no file."""
    return _SOURCE.fullmatch(os.fspath(source)) is not None


def file_of(source: str) -> str:
    """Return the path of a description without the arguments of a xacro file."""
    found = _SOURCE.fullmatch(source)
    return found[1] if found else source


def with_file(source: str, change: Callable[[str], str | Path]) -> str:
    """Return a description with the changed path of its file, and the same arguments."""
    file = file_of(source)
    return f"{change(file)}{source[len(file) :]}"


def joined(words: Iterable[str]) -> list[str]:
    """Return the words of a command line, with arguments of a xacro file in the word of its path.

    Each word ``NAME:=VALUE`` that follows the path, or another such word, is one of its arguments.
    """
    result: list[str] = []
    for word in words:
        if result and _ARGUMENT.fullmatch(word) and is_xacro(result[-1]):
            result[-1] += f" {shlex.quote(word)}"
        else:
            result.append(word)
    return result


def expanded(source: str | os.PathLike[str]) -> str:
    """Return the URDF text that a xacro file expands to; the name of the robot is the file's.

    Args:
        source: path of the file, and its arguments.

    Raises:
        ModelError: when xacrodoc is not installed, or the file does not exist, cannot be expanded,
            for example without an argument that it requires, or does not declare a given one.
    """
    file = file_of(os.fspath(source))
    if is_absent(file):
        raise ModelError("there is no such file; give the path of a URDF or xacro file")
    try:
        from xacrodoc import XacroDoc, packages
    except ImportError:
        raise ModelError(
            "a xacro file is expanded by the package xacrodoc, which is not installed: pip install "
            "xacrodoc, or expand the file with: xacro FILE NAME:=VALUE > robot.urdf"
        ) from None
    path = Path(file).absolute()
    try:
        words = shlex.split(os.fspath(source)[len(file) :])
        given = _Arguments(dict(word.split(":=", 1) for word in words))
        path.open().close()  # xacro hides the reason why a file cannot be read
        packages.walk_up_from(path)
        # An include, because paths in the file are relative to its folder only then.
        included = escape(str(path), {'"': "&quot;"})
        document = XacroDoc.from_includes(
            [included],
            path.name.partition(".")[0],
            subargs=given,
            resolve_packages=False,
            rootdir=path.parent,
        )
        text: str = document.to_urdf_string(pretty=False)
    # xacro passes on exceptions of any type from the expressions in the file.
    except Exception as error:
        raise ModelError(
            f"xacro cannot expand it: {reason(error)}; arguments follow the file as NAME:=VALUE"
        ) from error
    for name in given.keys() - given.known:
        declared = sorted(given.known)
        near = get_close_matches(name, declared)
        others = [each for each in declared if each not in near]
        raise ModelError(
            f"declares no xacro argument {quoted(name)}; its arguments are "
            f"{listed([*near, *others], 100)}"
        )
    return text
