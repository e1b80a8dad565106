"""Parameters of the nodes of one arm among several: its own names, its own section of a file."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rbd_control.errors import ParameterError
from rbd_control.files.input_files import about
from rbd_control.files.yaml_input import read_yaml

NAMES = (
    "adapted_links",
    "force_link",
    "joints",
    "locked_joints",
    "payload_link",
    "tool_frame",
)
"""Parameters that hold names of joints or links of the description."""


def node_parameters(
    params_file: str | Path,
    namespace: str,
    node: str,
    prefix: str = "",
    joints: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the parameters of one node of an arm.

    A section that names a node outside any namespace counts for the node in ``namespace``, too;
    ROS 2 itself passes over it. Sections apply from the general to the particular: ``/**``, the
    whole namespace, the node's name alone, the node in its namespace.

    Args:
        params_file: ROS 2 parameter file, such as the ``arm.yaml`` of ``calibrate``; empty for
            none.
        namespace: namespace of the node, with or without slashes.
        node: name of the node.
        prefix: what the joints and links of this arm's description begin with; it is put before
            the names that do not begin with it.
        joints: joints of the arm without prefix; empty: those of the file.

    Raises:
        ParameterError: naming the file, when it cannot be read or a section has no
            ``ros__parameters``.
    """
    values = _of_file(params_file, namespace.strip("/"), node) if params_file else {}
    if joints:
        values["joints"] = list(joints)
    if prefix:
        values |= {name: _prefixed(values[name], prefix) for name in NAMES if name in values}
    # A list without entries has no type; it is the default wherever it is allowed.
    return {name: value for name, value in values.items() if value != []}


def parameter_file(namespace: str, parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the parameters of several nodes of one process, and return the path of the file.

    The file is removed when this process ends, which is that of the launch.

    Args:
        namespace: namespace of the nodes.
        parameters: parameters of each node, by its name.
    """
    space = namespace.strip("/")
    sections = {
        f"/{space}/{node}" if space else f"/{node}": {"ros__parameters": dict(values)}
        for node, values in parameters.items()
    }
    handle, path = tempfile.mkstemp(prefix="rbd_control_", suffix=".yaml")
    atexit.register(Path(path).unlink, missing_ok=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        yaml.safe_dump(sections, file)
    return path


def _of_file(path: str | Path, namespace: str, node: str) -> dict[str, Any]:
    sections = ["/**", f"/**/{node}", node, f"/{node}"]
    if namespace:
        sections[1:1] = [f"/{namespace}/**"]
        sections += [f"/*/{node}", f"{namespace}/{node}", f"/{namespace}/{node}"]
    values: dict[str, Any] = {}
    with about(path):
        content = read_yaml(path, ParameterError)
        if not isinstance(content, Mapping):
            raise ParameterError("holds no sections with parameters")
        for section in sections:
            values |= _section(content, section)
    return values


def _section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in content:
        return {}
    body = content[name]
    inner = body.get("ros__parameters") if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        raise ParameterError(f"section {name!r} has no 'ros__parameters' with names and values")
    return inner


def _prefixed(value: Any, prefix: str) -> Any:
    """Return a name, or each name of a list, with the prefix; an empty name stays empty."""
    if isinstance(value, list):
        return [_prefixed(item, prefix) for item in value]
    if not isinstance(value, str) or not value or value.startswith(prefix):
        return value
    return prefix + value
