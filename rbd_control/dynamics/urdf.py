"""Links and joints from URDF or xacro text.

**Conversion of URDF text to links and joints, each checked alone; ``tree.py`` checks the tree.**

The parser reads the inertials of the links, and the frames, axes, limits and mimics of the joints.
Visuals, collisions, meshes, transmissions, ``dynamics`` and ``safety_controller`` are ignored, so
missing meshes do not matter.
"""

from __future__ import annotations

import io
import math
import os
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse
from numpy.typing import NDArray

from rbd_control.errors import ModelError
from rbd_control.files.input_files import about, is_absent, read_bounded, reason
from rbd_control.files.xacro_files import expanded, is_xacro
from rbd_control.wording import quoted

Array = NDArray[np.float64]

MAX_BYTES = 10_000_000
"""Maximum size of a file [bytes], and of a text or an expanded xacro file [characters]."""

MAX_DEPTH = 64
"""Maximum nesting depth of elements."""

MAX_ELEMENTS = 200_000
"""Maximum number of elements; an element takes about a hundred times the memory of its text."""

MAX_JOINTS = 1000
"""Maximum number of joints."""

MAX_NUMBER = 1e9
"""Largest accepted magnitude of a number, so that products do not overflow.

It does not apply to the limits of joints.
"""

_PATH_LENGTH = 4096
"""Length above which a text cannot be a path [characters]."""

MOVABLE = ("revolute", "continuous", "prismatic")
_KINDS = (*MOVABLE, "fixed", "floating", "planar")


@dataclass(frozen=True, eq=False)
class Link:
    """A link; its centre of mass and its inertia are in the frame of the link.

    A link without ``<inertial>`` has zero mass and inertia.
    """

    name: str
    mass: float
    """Mass [kg]."""
    com: Array
    """Centre of mass, (3,) [m]."""
    inertia: Array
    """Inertia about the centre of mass, (3, 3) [kg·m²]."""


@dataclass(frozen=True)
class Mimic:
    """Coupling of a joint to another: ``position = multiplier * position of the leader + offset``.

    Attributes:
        leader: name of the joint that this joint follows.
        multiplier: factor on the leader's position, [rad or m] per [rad or m].
        offset: position of this joint where the leader is at zero [rad or m].
    """

    leader: str
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint of a URDF description."""

    name: str
    kind: str
    """Type of the joint in URDF: revolute, continuous, prismatic, fixed, floating or planar."""
    parent: str
    """Name of the parent link."""
    child: str
    """Name of the child link."""
    placement: Array
    """Pose of the joint frame at joint position zero in the frame of the parent link, (4, 4)."""
    axis: Array
    """Unit vector of the axis in the joint frame, (3,); zero for a fixed, floating or planar
    joint."""
    lower: float
    """Lower position limit [rad or m]; -inf if the joint has none."""
    upper: float
    """Upper position limit [rad or m]; inf if the joint has none."""
    velocity: float
    """Velocity limit [rad/s or m/s]; inf if it is unknown."""
    effort: float
    """Effort limit [N·m or N]; inf if it is unknown."""
    mimic: Mimic | None
    """Coupling to the joint that it follows; None for an independent joint."""


@dataclass(frozen=True, eq=False)
class Robot:
    """The links and joints of a URDF description, in the order of its text."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]


@contextmanager
def naming(source: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path to package errors raised in the ``with`` block, if ``source`` is a path.

    If ``source`` is URDF text or of another type, errors pass unchanged.
    """
    if is_urdf_text(source) or not isinstance(source, (str, os.PathLike)):
        yield
        return
    with about(source):
        yield


def parse_urdf(source: str | os.PathLike[str]) -> Robot:
    """Return the robot that ``source`` describes: URDF text (it begins with "<"), or a path.

    A path that ends in ``.xacro`` is expanded, with the arguments ``NAME:=VALUE`` after it.

    Raises:
        ModelError: for an invalid link or joint, which is named; for a text that is not the XML of
            a URDF, has a document type, entities or xacro elements, or exceeds ``MAX_BYTES``,
            ``MAX_ELEMENTS``, ``MAX_DEPTH`` or ``MAX_JOINTS``; for a file that cannot be read. The
            error names the file if ``source`` is a path.
    """
    with naming(source):
        root = _parse_xml(_open(source))
        _refuse_xacro(root)
        root = without_namespace(root)
        if root.tag != "robot":
            raise ModelError(f"the root element is <{root.tag[:40]}>; a URDF has <robot>")
        return _robot(root)


def _robot(root: Element) -> Robot:
    # Only direct children: transmissions and plugins have <joint> elements of their own.
    joint_elements = root.findall("joint")
    if len(joint_elements) > MAX_JOINTS:
        raise ModelError(f"{len(joint_elements)} joints; at most {MAX_JOINTS} are read")
    links = tuple(_link(element) for element in root.findall("link"))
    joints = tuple(_joint(element) for element in joint_elements)
    name = root.get("name", "robot")
    if not links:
        raise ModelError(f"robot {quoted(name)} has no links")
    _refuse_duplicates("link", (link.name for link in links))
    _refuse_duplicates("joint", (joint.name for joint in joints))
    return Robot(name, links, joints)


def without_namespace(root: Element) -> Element:
    """Remove the namespace of the root element from its name and the names of all elements in it.

    The descriptions of Drake, for example, declare ``xmlns="http://drake.mit.edu"``. Elements of
    other namespaces keep theirs.

    Returns:
        ``root``, which is changed.
    """
    space, brace, _ = root.tag.rpartition("}")
    if brace:
        for element in root.iter():
            element.tag = element.tag.removeprefix(space + brace)
    return root


def without_margin(text: str) -> str:
    """Return URDF text without byte order mark and white space around it.

    Python's parser refuses white space before an XML declaration; the parsers of ROS ignore it.
    """
    return text.lstrip("\ufeff").strip()


def is_urdf_text(source: object) -> bool:
    """Return whether ``source`` is URDF text or an empty text, rather than a path.

    Text is empty, begins with ``<``, has several lines, or is longer than any path.
    """
    if not isinstance(source, str):
        return False
    text = without_margin(source)
    return not text or text.startswith("<") or len(source) > _PATH_LENGTH or "\n" in source


def _open(source: str | os.PathLike[str]) -> io.StringIO | io.BytesIO:
    if not isinstance(source, (str, os.PathLike)):
        raise ModelError(
            f"give the robot description as text or as a path, not as {type(source).__name__}"
        )
    if not is_urdf_text(source):
        if is_xacro(source):
            return io.StringIO(_bounded(expanded(source)))
        return io.BytesIO(_read(source).removeprefix(BOM_UTF8).lstrip())
    text = without_margin(str(source))
    if not text:
        raise ModelError("the robot description is empty")
    if not text.startswith("<"):
        raise ModelError(
            f"{quoted(text)} is neither URDF text, which begins with '<', nor the path of a file"
        )
    return io.StringIO(_bounded(text))


def _bounded(text: str) -> str:
    if len(text) > MAX_BYTES:
        raise ModelError(
            f"the robot description is larger than {MAX_BYTES / 1e6:g} MB, the most that is read"
        )
    return text


def read_urdf(path: str | os.PathLike[str]) -> str:
    """Return the text of a description; a xacro file is expanded.

    Raises:
        ModelError: when the file cannot be read, is empty, larger than ``MAX_BYTES``, not UTF-8
            text or does not begin with "<", or when xacro fails or is not installed. The message
            lacks the path; use :func:`naming` to add it.
    """
    if is_xacro(path):
        return _bounded(expanded(path))
    try:
        text = _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    if not text.lstrip().startswith("<"):
        raise ModelError(f"is no URDF: it begins with {quoted(text[:20])}, not with '<'")
    return text


def _read(path: str | os.PathLike[str]) -> bytes:
    if is_absent(path):
        raise ModelError("there is no such file; give the path of a URDF, or its text")
    content = read_bounded(path, MAX_BYTES, ModelError)
    if not content.strip():
        raise ModelError("the robot description is empty")
    return content


def _parse_xml(source: io.StringIO | io.BytesIO) -> Element:
    depth = count = 0
    root: Element | None = None
    try:
        for event, element in iterparse(source, events=("start", "end"), forbid_dtd=True):
            if event == "end":
                depth -= 1
                continue
            root = element if root is None else root
            depth += 1
            count += 1
            if depth > MAX_DEPTH:
                raise ModelError(f"<{element.tag[:40]}> is nested deeper than {MAX_DEPTH} elements")
            if count > MAX_ELEMENTS:
                raise ModelError(f"has more than {MAX_ELEMENTS} elements, the most that is read")
    except ModelError:
        raise
    except ParseError as error:
        if "unbound prefix" in str(error):
            raise ModelError(
                f"an element has a prefix that is not declared ({error}); if this is a xacro "
                f"file, expand it with xacro first"
            ) from error
        raise ModelError(f"the robot description is not XML: {reason(error)}") from error
    except DefusedXmlException as error:
        raise ModelError(
            f"the robot description has a document type or entities, which are refused: "
            f"{reason(error)}"
        ) from error
    except (ValueError, LookupError) as error:
        # The declared encoding is unknown or does not fit the bytes.
        raise ModelError(f"the robot description cannot be decoded: {reason(error)}") from error
    assert root is not None  # text without an element is a ParseError
    return root


def _refuse_xacro(root: Element) -> None:
    for element in root.iter():
        if "/xacro}" in element.tag or element.tag.startswith("xacro:"):
            what = f"<xacro:{element.tag.split('}')[-1].removeprefix('xacro:')}>"
        else:
            values = (value for value in element.attrib.values() if "${" in value)
            what = next(values, "")
        if what:
            raise ModelError(
                f"the robot description is a xacro file that is not expanded: it has "
                f"{quoted(what)}; expand it with xacro first"
            )


def _refuse_duplicates(what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ModelError(f"{what} {quoted(name)} is described {count} times")


def _link(element: Element) -> Link:
    name = _attribute(element, "name", "a <link>")
    who = f"link {quoted(name)}"
    inertial = element.find("inertial")
    if inertial is None:
        return Link(name, 0.0, np.zeros(3), np.zeros((3, 3)))
    mass = _number(_child(inertial, "mass", who), "value", f"{who}: mass")
    if mass < 0.0:
        raise ModelError(f"{who}: mass is {mass} kg; it must not be negative")
    entries = _child(inertial, "inertia", who)
    inertia = np.empty((3, 3))
    for i, a in enumerate("xyz"):
        for j, b in enumerate("xyz"[: i + 1]):
            key = f"i{b}{a}"
            inertia[i, j] = inertia[j, i] = _number(entries, key, f"{who}: inertia {key}")
    placement = element_placement(inertial, f"{who}: origin of the inertial")
    rotation = placement[:3, :3]
    return Link(name, mass, placement[:3, 3].copy(), rotation @ inertia @ rotation.T)


def _joint(element: Element) -> Joint:
    name = _attribute(element, "name", "a <joint>")
    who = f"joint {quoted(name)}"
    kind = _attribute(element, "type", who)
    if kind not in _KINDS:
        raise ModelError(f"{who}: type is {quoted(kind)}; types are {', '.join(_KINDS)}")
    mimic = element.find("mimic")
    lower, upper, velocity, effort = _limits(element, kind, who)
    return Joint(
        name=name,
        kind=kind,
        parent=_attribute(_child(element, "parent", who), "link", f"{who}: <parent>"),
        child=_attribute(_child(element, "child", who), "link", f"{who}: <child>"),
        placement=element_placement(element, f"{who}: origin"),
        axis=_axis(element, who) if kind in MOVABLE else np.zeros(3),
        lower=lower,
        upper=upper,
        velocity=velocity,
        effort=effort,
        mimic=None if mimic is None else _mimic(mimic, f"{who}: <mimic>"),
    )


def _mimic(element: Element, who: str) -> Mimic:
    return Mimic(
        leader=_attribute(element, "joint", who),
        multiplier=_number(element, "multiplier", f"{who} multiplier", default="1"),
        offset=_number(element, "offset", f"{who} offset", default="0"),
    )


def _axis(element: Element, who: str) -> Array:
    axis = element.find("axis")
    if axis is None:
        return np.array([1.0, 0.0, 0.0])
    values = three_numbers(axis, "xyz", f"{who}: axis")
    length = np.linalg.norm(values)
    if length == 0.0:
        raise ModelError(f"{who}: axis is 0 0 0; it must have a direction")
    return np.asarray(values / length)


def _limits(element: Element, kind: str, who: str) -> tuple[float, float, float, float]:
    """Return the lower, upper, velocity and effort limit of a joint.

    A limit that the kind of joint does not have is infinite. So is a velocity or effort limit that
    is missing or zero, which means that it was not filled in. A missing lower or upper limit of a
    revolute or prismatic joint is zero, as the URDF specification states.
    """
    if kind not in MOVABLE:
        return -math.inf, math.inf, math.inf, math.inf
    limit = element.find("limit")
    if limit is None:
        if kind != "continuous":
            raise ModelError(f"{who}: a {kind} joint needs <limit> with lower and upper")
        limit = Element("limit")
    bounds = []
    for key in ("velocity", "effort"):
        bound = _number(limit, key, f"{who}: limit {key}", default="0", infinite=True)
        if bound < 0.0:
            raise ModelError(f"{who}: limit {key} is {bound}; it must not be negative")
        # Exporters write 0 for a value that was not given; no joint could move within this limit.
        bounds.append(bound if bound > 0.0 else math.inf)
    if kind == "continuous":
        return -math.inf, math.inf, bounds[0], bounds[1]
    lower = _number(limit, "lower", f"{who}: limit lower", default="0", infinite=True)
    upper = _number(limit, "upper", f"{who}: limit upper", default="0", infinite=True)
    if lower > upper:
        raise ModelError(f"{who}: lower limit {lower} is above upper limit {upper}")
    return lower, upper, bounds[0], bounds[1]


def element_placement(element: Element, who: str) -> Array:
    """Return the pose that the <origin> of an XML element describes, (4, 4), position in [m].

    It is the identity without <origin>.

    Args:
        element: the parent of <origin>.
        who: name of the element in error messages.

    Raises:
        ModelError: if ``xyz`` or ``rpy`` does not consist of three numbers, as for
            :func:`three_numbers`.
    """
    placement = np.eye(4)
    origin = element.find("origin")
    if origin is not None:
        placement[:3, 3] = three_numbers(origin, "xyz", f"{who}: xyz", default="0 0 0")
        roll, pitch, yaw = three_numbers(origin, "rpy", f"{who}: rpy", default="0 0 0")
        cr, sr = math.cos(roll), math.sin(roll)
        cp, sp = math.cos(pitch), math.sin(pitch)
        cy, sy = math.cos(yaw), math.sin(yaw)
        # Rz(yaw) Ry(pitch) Rx(roll)
        placement[:3, :3] = [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    return placement


def _child(element: Element, tag: str, who: str) -> Element:
    child = element.find(tag)
    if child is None:
        raise ModelError(f"{who}: <{element.tag}> lacks <{tag}>")
    return child


def _attribute(element: Element, key: str, who: str, default: str | None = None) -> str:
    value = element.get(key, default)
    if not value:
        raise ModelError(f"{who}: attribute {key!r} is missing or empty")
    return value


def _number(
    element: Element, key: str, who: str, *, default: str | None = None, infinite: bool = False
) -> float:
    text = _attribute(element, key, who, default)
    return _as_number(text, text, who, infinite=infinite)


def three_numbers(element: Element, key: str, who: str, *, default: str | None = None) -> Array:
    """Return the three numbers in an attribute of an XML element, (3,).

    Args:
        element: the XML element.
        key: name of the attribute.
        who: name of the attribute in error messages.
        default: value of a missing attribute as text; None if the attribute is required.

    Raises:
        ModelError: if a required attribute is missing, or if the attribute is empty or does not
            consist of three numbers of magnitude at most ``MAX_NUMBER``.
    """
    text = _attribute(element, key, who, default)
    words = text.split()
    if len(words) != 3:
        raise ModelError(f"{who} is {quoted(text)}; give three numbers")
    return np.array([_as_number(word, text, who) for word in words])


def _as_number(word: str, text: str, who: str, *, infinite: bool = False) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if math.isnan(value) or (abs(value) > MAX_NUMBER and not infinite):
        wanted = "a number" if infinite else f"numbers of at most {MAX_NUMBER:g}"
        raise ModelError(f"{who} is {quoted(text)}; give {wanted}")
    return value
