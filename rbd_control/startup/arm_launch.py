"""Common parts of the launch files: arguments, parameters of a node, and checks of both."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from defusedxml.ElementTree import fromstring

from rbd_control.contact_stop import StopParameters
from rbd_control.control import ControllerParameters
from rbd_control.control.hand_guide import HandGuideParameters
from rbd_control.dynamics.urdf import without_margin, without_namespace
from rbd_control.errors import ParameterError
from rbd_control.estimation import DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.files.yaml_input import read_yaml
from rbd_control.node_parameters import GripperParameters
from rbd_control.parameters import described_names
from rbd_control.robot.robot import description_text
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.share import share_directory
from rbd_control.wording import listed

KINDS = (
    RobotParameters,
    DetectorParameters,
    GripperParameters,
    ControllerParameters,
    StopParameters,
    HandGuideParameters,
)
"""Classes of the parameters that nodes of an arm have."""

NAMES = described_names(KINDS)
"""Parameters that contain names of joints or links of the description.

They map the name of the parameter to the keywords, such as ``all``, that it accepts as well.
"""

NOT_EMPTY = {"actions"} | {
    item.name
    for kind in KINDS
    for item in fields(kind)
    if isinstance(item.default, tuple) and item.default
}
"""Parameters with lists whose default is not empty."""

ARGUMENTS = {
    "params_file": ("", "parameters of the nodes; empty: the defaults"),
    "urdf": (
        "",
        "path of the URDF, or of a xacro file with its arguments NAME:=VALUE; empty: that of "
        "params_file, else the topic robot_description",
    ),
    "namespace": ("", "namespace of the nodes and of their topics"),
    "joint_states": ("joint_states", "topic with the measured joint states of the arm"),
    "robot_description": ("robot_description", "topic with the description of the arm"),
    "frame_prefix": (
        "",
        "text before the names of links on TF and in header.frame_id, such as left/",
    ),
}
"""Arguments of several launch files: from the name to the pair (default, description)."""

SWITCHES = {
    "use_sim_time": ("false", "take the time from /clock"),
    "publish_robot_state": (
        "false",
        "start robot_state_publisher with the description of urdf; where it runs already, leave "
        "this out",
    ),
    "rviz": ("false", "start RViz with the configuration of this package"),
}
"""Arguments of several launch files with the values ``true`` or ``false``.

They map the name to the pair (default, description).
"""


def configuration(name: str) -> str:
    """Return the path of a file in the installed folder ``config/`` of this package.

    Raises:
        FileNotFoundError: if the installed files of the package are not found.
    """
    return str(share_directory() / "config" / name)


def listed_names(text: str) -> list[str]:
    """Return the names in a text such as ``joint_1, joint_2``, without blanks and empty names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def require_package(name: str, argument: str) -> None:
    """Raise an error if a ROS package that a launch argument needs is not installed.

    Args:
        name: name of the ROS package.
        argument: name of the launch argument, for the error.

    Raises:
        ParameterError: naming the system package to install.
    """
    marker = Path("share", "ament_index", "resource_index", "packages", name)
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    if not any(Path(prefix, marker).is_file() for prefix in prefixes if prefix):
        distribution = os.environ.get("ROS_DISTRO", "<distribution>")
        package = f"ros-{distribution}-{name.replace('_', '-')}"
        raise ParameterError(
            f"{argument} needs the package {name}, which is not installed: install {package}, or "
            f"give {argument}:=false"
        )


def require_sections(params_file: str | Path, namespace: str, nodes: Sequence[str]) -> None:
    """Raise an error if a parameter file is missing, or no section applies to any of the nodes.

    Args:
        params_file: the file; with an empty text there is nothing to check.
        namespace: namespace of the nodes, with or without slashes.
        nodes: names of the nodes; one node with a section suffices.

    Raises:
        ParameterError: naming the file, if it cannot be read or has no sections, or if none applies
            to the nodes; the message then lists its sections.
    """
    if not params_file:
        return
    with about(params_file):
        content = read_yaml(params_file, ParameterError)
        if not isinstance(content, Mapping):
            raise ParameterError("holds no sections with parameters")
        if not any(_sections(content, namespace.strip("/"), node) for node in nodes):
            raise ParameterError(
                f"has no section for {listed(nodes)}: its sections are "
                f"{listed(map(str, content))}; a section of such a node has its name, or is /**"
            )


def published_description(urdf: str) -> str:
    """Return the robot description, the text of the URDF, for robot_state_publisher.

    Args:
        urdf: path of the URDF, or of a xacro file with its arguments.

    Raises:
        ParameterError: if ``urdf`` is empty.
        ModelError: if the file cannot be read.
    """
    if not urdf:
        raise ParameterError(
            "publish_robot_state needs the description: give urdf. Where the description comes "
            "from a topic, a robot_state_publisher mostly runs already"
        )
    return description_text(RobotParameters.from_mapping({"urdf": urdf}))


def root_link(description: str) -> str:
    """Return the name of the root link of a robot description; an empty text if there is none.

    Args:
        description: text of the URDF.

    Raises:
        xml.etree.ElementTree.ParseError: if the text is not XML.
    """
    robot = without_namespace(fromstring(without_margin(description)))
    children = {child.get("link") for child in robot.iterfind("joint/child")}
    names = [str(link.get("name")) for link in robot.iterfind("link")]
    return next((name for name in names if name not in children), "")


def node_parameters(
    params_file: str | Path,
    namespace: str,
    node: str,
    prefix: str = "",
    joints: Sequence[str] = (),
    urdf: str = "",
) -> dict[str, Any]:
    """Return the parameters of one node of an arm, by name, from a parameter file.

    A section that names a node without a namespace also applies to the node in ``namespace``; ROS 2
    itself would ignore it. Later sections in this order override earlier ones: ``/**``, the whole
    namespace, the node's name alone, the node in its namespace.

    Args:
        params_file: ROS 2 parameter file, such as the ``arm.yaml`` of ``calibrate``; empty
            without a file.
        namespace: namespace of the node, with or without slashes.
        node: name of the node.
        prefix: common prefix of the joints and links in the description of this arm; it is added
            to names without it, but not to keywords such as 'all'.
        joints: joints of the arm without prefix; empty: the joints of the file.
        urdf: path of a URDF in place of the description in the file; empty: that of the file.

    Returns:
        The parameters without empty lists, which have no type in ROS 2.

    Raises:
        ParameterError: naming the file, if it cannot be read, a section has no
            ``ros__parameters``, or an empty list would become a default that is not empty.
    """
    values = _of_file(params_file, namespace.strip("/"), node) if params_file else {}
    if joints:
        values["joints"] = list(joints)
    if urdf:
        values.pop("robot_description", None)  # a node would prefer it
        values["urdf"] = urdf
    if prefix:
        values |= {
            name: _prefixed(values[name], prefix, keywords)
            for name, keywords in NAMES.items()
            if name in values
        }
    # An empty list has no type in ROS 2; without it the parameter has its default.
    wrong = sorted(name for name in NOT_EMPTY & values.keys() if values[name] == [])
    if wrong:
        with about(params_file):
            raise ParameterError(
                f"{listed(wrong)}: ROS 2 cannot pass an empty list; leave it out for the default"
                + ("; no actions are ['']" if "actions" in wrong else "")
            )
    return {name: value for name, value in values.items() if value != []}


def parameter_file(namespace: str, parameters: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the parameters of several nodes of one process, and return the path of the file.

    The file is removed when this process, which runs the launch, ends.

    Args:
        namespace: namespace of the nodes, with or without slashes.
        parameters: parameters of each node, by the name of the node.
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
    values: dict[str, Any] = {}
    with about(path):
        content = read_yaml(path, ParameterError)
        if not isinstance(content, Mapping):
            raise ParameterError("holds no sections with parameters")
        for section in _sections(content, namespace, node):
            values |= _section(content, section)
    return values


def _sections(content: Mapping[str, Any], namespace: str, node: str) -> list[str]:
    """Return the sections of a file that apply to a node, the most general first."""
    sections = ["/**", f"/**/{node}", node, f"/{node}"]
    if namespace:
        sections[1:1] = [f"/{namespace}/**"]
        sections += [f"/*/{node}", f"{namespace}/{node}", f"/{namespace}/{node}"]
    return [section for section in sections if section in content]


def _section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    body = content[name]
    inner = body.get("ros__parameters") if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        raise ParameterError(f"section {name!r} has no 'ros__parameters' with names and values")
    return inner


def _prefixed(value: Any, prefix: str, keywords: Sequence[str]) -> Any:
    """Return a name, or each name of a list, with the prefix.

    Keywords, empty names, and names that begin with the prefix already, are returned unchanged.
    """
    if isinstance(value, list):
        return [_prefixed(item, prefix, keywords) for item in value]
    if not isinstance(value, str) or not value or value in keywords or value.startswith(prefix):
        return value
    return prefix + value
