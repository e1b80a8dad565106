"""Writing of YAML that ROS 2 and this package read as the same types."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

_NOT_TEXT = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan")
"""Words that YAML, or ROS 2, does not interpret as text."""


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes every text that could be read as another type; lists are on one line."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Return True: ROS 2 reads no aliases."""
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if _is_plain(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: _Dumper, values: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)


def yaml_text(text: str) -> str:
    """Return a text as YAML, quoted unless it has only characters of names and paths."""
    if _is_plain(text):
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', width=math.inf)
    return quoted.rstrip("\n")


def yaml_lines(values: Mapping[str, Any], indent: int) -> list[str]:
    """Return a mapping as lines of YAML, in its order.

    Args:
        values: values as :func:`~rbd_control.files.yaml_input.read_yaml` returns them.
        indent: number of spaces before each line.
    """
    if not values:
        return []
    text: str = yaml.dump(
        dict(values),
        Dumper=_Dumper,
        width=math.inf,
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
    )
    return [" " * indent + line for line in text.rstrip("\n").split("\n")]


def with_values(text: str, section: str, values: Mapping[str, str]) -> str:
    """Return the text of a parameter file with other values of a section; all else stays as it is.

    Existing values on one line are replaced with their line, and others are added to the section,
    which is added at the end if it is missing.

    Args:
        text: the file.
        section: name of the node at the beginning of a line.
        values: the values as YAML, by name.
    """
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    head = re.compile(rf"/?{re.escape(section)}:\s*(#.*)?")
    begin = next((k for k, line in enumerate(lines) if head.fullmatch(line)), None)
    if begin is None:
        lines += ["", f"{section}:", "  ros__parameters:"]
        begin = len(lines) - 2
    end = begin + 1
    while end < len(lines) and not re.match(r"[^\s#]", lines[end]):
        end += 1
    while not lines[end - 1].strip() or lines[end - 1].startswith("#"):
        end -= 1
    inner = next(
        k for k in range(begin, end) if lines[k].split("#")[0].strip().endswith("ros__parameters:")
    )
    body = next((line for line in lines[inner + 1 : end] if line.split("#")[0].strip()), "    x:")
    indent = " " * (len(body) - len(body.lstrip()))
    for name, value in values.items():
        entry = re.compile(rf"{indent}{re.escape(name)}:.*")
        at = next((k for k in range(inner + 1, end) if entry.fullmatch(lines[k])), None)
        if at is None:
            lines.insert(end, f"{indent}{name}: {value}")
            end += 1
        else:
            lines[at] = f"{indent}{name}: {value}"
    return "\n".join(lines) + "\n"


def _is_plain(text: str) -> bool:
    """Return whether a text needs no quotes."""
    usual = re.fullmatch(r"[A-Za-z_/][\w./-]*", text, re.ASCII)
    return bool(usual) and text.lower() not in _NOT_TEXT
