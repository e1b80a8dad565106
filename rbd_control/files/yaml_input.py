"""Reading of YAML files with limits: size, depth, no aliases, no tags that create objects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rbd_control.errors import RbdControlError
from rbd_control.files.input_files import read_bounded, reading

MAX_BYTES = 2_000_000
"""Largest YAML file that is read [bytes]."""

MAX_DEPTH = 32
"""Maximum nesting depth; libyaml ends the process at a depth of tens of thousands."""

_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE_LOADER):
    """Safe loader that reads numbers with an exponent as ROS 2 reads them.

    YAML 1.1, which PyYAML implements, requires a point and a sign of the exponent, so that 5e-1 and
    1.0e3 are texts. The parser of ROS 2 reads them as numbers with ``strtod``.
    """


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+\Z"),
    list("-+.0123456789"),
)


def read_yaml(path: str | Path, kind: type[RbdControlError]) -> Any:
    """Return the content of a YAML file as dictionaries, lists and scalars.

    Aliases are refused, as ROS 2 refuses them in parameter files: a few lines with aliases can
    expand to more than the memory can hold. Numbers with an exponent are numbers as in ROS 2, also
    without a point or a sign of the exponent.

    Raises:
        RbdControlError: of class ``kind`` and naming the file, if it cannot be read, is not YAML,
            has an alias, or exceeds :data:`MAX_BYTES` or :data:`MAX_DEPTH`.
    """
    content = read_bounded(path, MAX_BYTES, kind)
    with reading(path, kind, "is not YAML"):
        text = content.decode("utf-8-sig")
        try:
            _check_structure(text, kind)
            return yaml.load(text, Loader=_Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"line {mark.line + 1}: " if mark else ""
            raise yaml.YAMLError(f"{where}{error.problem or error.context}") from error


def _check_structure(text: str, kind: type[RbdControlError]) -> None:
    """Refuse aliases and deep nesting before any recursive code reads the text."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise kind(
                "has a YAML alias (*name); write the values out, ROS 2 takes no aliases either"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise kind(f"is nested deeper than {MAX_DEPTH} levels")
