"""Typed, frozen parameter objects, shared by nodes, commands and the classes that they run.

A parameter object is a frozen dataclass derived from :class:`Parameters` whose fields are created
with :func:`parameter`. The ROS node declares the description, unit and bounds of each field,
``ros2 param describe`` shows them, and the constructor, which :meth:`Parameters.from_yaml` calls,
checks the bounds. A file that loads in ``rbd-control replay`` therefore also loads in the node, and
vice versa.

A parameter file has the form ROS 2 uses::

    contact_detector:
      ros__parameters:
        observer_gain: [50.0]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from rbd_control.errors import ModelWarning, ParameterError
from rbd_control.files.input_files import about
from rbd_control.files.yaml_input import read_yaml
from rbd_control.wording import listed, quoted

P = TypeVar("P", bound="Parameters")

Section = tuple[str, ...]
"""Keys of a section of a parameter file: the name of a node, after those of nested namespaces."""

MOST_VALUES = 10_000
"""Maximum number of values of one parameter, enough for a matrix of a hundred joints."""


def parameter(  # noqa: PLR0913 - one keyword for each entry of the metadata of a field
    default: Any,
    description: str,
    *,
    unit: str = "",
    lower: float = -math.inf,
    upper: float = math.inf,
    above: float = -math.inf,
    choices: tuple[str, ...] = (),
    per_joint: bool = False,
    joint_matrix: bool = False,
    live: bool = True,
    start_only: bool = False,
    in_description: bool = False,
    keywords: tuple[str, ...] = (),
    expert: bool = False,
    found_by_calibrate: bool = False,
    compiled: bool = False,
) -> Any:
    """Declare one field of a :class:`Parameters` dataclass.

    ``lower`` and ``upper`` are inclusive bounds, ``above`` an exclusive lower bound, ``choices``
    the permitted texts. A ``per_joint`` parameter is a tuple of one number for all joints
    or one for each; a ``joint_matrix`` parameter is a square matrix row by row, or empty. Another
    tuple holds numbers if it has a ``unit``, otherwise texts. ``live`` parameters may change while
    the node is active. A ``start_only`` parameter, such as the name of an output file, keeps
    its value from the start of the process. An ``in_description`` parameter holds names of joints
    or links of the robot description, to which launch files add the prefix of an arm; its
    ``keywords`` are texts that are no such names, such as 'all'.

    The files in ``config`` are made from the fields. In them ``expert``
    parameters, which hardly any arm needs, stand after those to choose for an arm. ``rbd-control
    calibrate`` writes the parameters ``found_by_calibrate`` to the file of the arm. ``compiled``
    parameters of the detector are read by its compiled code, under their names
    (:mod:`~rbd_control.estimation.detector_state`).

    Returns:
        The field of the dataclass, with ``default`` and with all other arguments as metadata.

    Raises:
        TypeError: for a numeric parameter without finite bounds, because an extreme value could
            end the node, and for keywords of a parameter without names of the description.
    """
    if keywords and not in_description:
        raise TypeError(f"{description!r} has keywords but no names: give in_description as well")
    is_numeric = per_joint or joint_matrix or _is_numeric(default, unit)
    is_bounded = math.isfinite(max(lower, above)) and math.isfinite(upper)
    if is_numeric and not is_bounded:
        raise TypeError(f"{description!r} has no finite bounds: give lower (or above) and upper")
    return field(
        default=default,
        metadata={
            "description": description,
            "unit": unit,
            "lower": lower,
            "upper": upper,
            "above": above,
            "choices": choices,
            "per_joint": per_joint,
            "joint_matrix": joint_matrix,
            "live": live,
            "start_only": start_only,
            "in_description": in_description,
            "keywords": keywords,
            "expert": expert,
            "found_by_calibrate": found_by_calibrate,
            "compiled": compiled,
        },
    )


def described_names(kinds: Iterable[type[Parameters]]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters that hold names of joints or links, with their keywords.

    Args:
        kinds: classes of parameters; fields declared with ``in_description`` are returned.
    """
    return {
        item.name: item.metadata["keywords"]
        for kind in kinds
        for item in fields(kind)
        if item.metadata["in_description"]
    }


def _is_numeric(default: Any, unit: str) -> bool:
    """Return whether a parameter holds numbers; a list holds numbers if it has a unit."""
    if isinstance(default, tuple):
        return bool(unit)
    return isinstance(default, (int, float)) and not isinstance(default, bool)


@dataclass(frozen=True)
class Parameters:
    """Base class of the parameter objects; the constructor checks every field.

    Raises:
        ParameterError: naming the field, its value and its bounds.
    """

    HEADING: ClassVar[str] = ""
    """Heading of this class's own parameters in parameter files."""

    FORMER_NAMES: ClassVar[Mapping[str, str]] = {}
    """Present names of this class's own parameters by former name; both names are accepted."""

    REMOVED_NAMES: ClassVar[Mapping[str, str]] = {}
    """Texts about this class's removed parameters by name, for the error when one is given."""

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _checked(item, getattr(self, item.name)))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all parameters of the class."""
        return tuple(item.name for item in fields(cls))

    @classmethod
    def former_names(cls) -> dict[str, str]:
        """Return the present names of all renamed parameters of the class by former name."""
        found: dict[str, str] = {}
        for base in cls.__mro__:
            found |= vars(base).get("FORMER_NAMES", {})
        return found

    @classmethod
    def removed_names(cls) -> dict[str, str]:
        """Return the texts about all removed parameters of the class by name."""
        found: dict[str, str] = {}
        for base in cls.__mro__:
            found |= vars(base).get("REMOVED_NAMES", {})
        return found

    @classmethod
    def from_mapping(cls: type[P], values: Mapping[str, Any]) -> P:
        """Return the object with the given values; missing parameters keep their defaults.

        Args:
            values: values by present or former names.

        Raises:
            ParameterError: for an unknown name, with the nearest known names or a list of them, for
                a parameter that is given by both its names, and for a bad value.
        """
        known = {item.name for item in fields(cls)}
        former = cls.former_names()
        for old in sorted(former.keys() & values.keys()):
            if former[old] in values:
                raise ParameterError(
                    f"{old} is the former name of {former[old]} and both are given; keep "
                    f"{former[old]}"
                )
        values = {former.get(name, name): value for name, value in values.items()}
        unknown = sorted(set(values) - known)
        if unknown:
            reason = cls.removed_names().get(unknown[0]) or alternatives(unknown[0], known)
            raise ParameterError(f"no parameter {quoted(unknown[0])}; {reason}")
        return cls(**values)

    @classmethod
    def from_yaml(cls: type[P], path: str | Path, node: str, *, ignore: tuple[str, ...] = ()) -> P:
        """Read the section of ``node`` (and ``/**``, which it overrides) of a ROS 2 parameter file.

        Missing parameters keep their defaults.

        Args:
            path: the file.
            node: name of the node.
            ignore: names of the node's parameters that this object does not have; their values in
                the file are ignored.

        Raises:
            ParameterError: for a file that cannot be read, an unknown name or a bad value.
        """
        values = read_parameter_file(path, node)
        return cls.from_mapping({name: v for name, v in values.items() if name not in ignore})

    def for_joints(self, name: str, n: int) -> np.ndarray:
        """Return the per-joint parameter ``name`` as an array (n,); one value applies to all.

        Raises:
            ParameterError: if it has neither one nor ``n`` values.
        """
        values = np.array(getattr(self, name), dtype=float)
        if values.shape == (1,):
            return np.full(n, values[0])
        if values.shape != (n,):
            raise ParameterError(
                f"{name} has {values.size} values but the model has {n} joints; "
                f"give one value for all or {n}"
            )
        return values

    def joint_matrix(self, name: str, n: int) -> np.ndarray | None:
        """Return the parameter ``name`` as a matrix (n, n); None if it is empty.

        Raises:
            ParameterError: if it is not empty and does not have ``n`` times ``n`` values.
        """
        values = np.array(getattr(self, name), dtype=float)
        if values.size == 0:
            return None
        if values.size != n * n:
            raise ParameterError(
                f"{name} has {values.size} values but the model has {n} joints; give {n * n}, row "
                f"by row, or none"
            )
        return values.reshape(n, n)


def read_parameter_file(path: str | Path, node: str) -> dict[str, Any]:
    """Read the values by name in a ROS 2 parameter file for the node ``node``.

    Sections apply as in ROS 2: ``/**`` to every node, then ``node`` or ``/node``. A section for
    ``node`` in a namespace, such as ``/left/node``, is not read: a ``ModelWarning`` names it.

    Raises:
        ParameterError: naming the file, if it is missing or not YAML, has no section for the node,
            or has one without a mapping ``ros__parameters`` of names to values.
    """
    with about(path):
        content = read_yaml(path, ParameterError)
        if not isinstance(content, dict):
            held = "is empty" if content is None else f"holds {quoted(content)}"
            raise ParameterError(f"{held}; give a section {node!r}")
        sections = [name for name in ("/**", node, f"/{node}") if name in content]
        if not sections:
            raise ParameterError(
                f"has no section {node!r} or '/**'; its sections are {listed(map(str, content))}"
            )
        values: dict[str, Any] = {}
        for section in sections:
            values.update(_section(section, content[section]))
    _warn_of_namespaces(path, node, content)
    return values


def _warn_of_namespaces(path: str | Path, node: str, content: Mapping[Any, Any]) -> None:
    """Warn of sections for a node in a namespace, which apply to that node only."""
    places = ["/".join(place) for place in _places((), content)]
    unread = [place for place in places if place.endswith(f"/{node}") and place != f"/{node}"]
    if unread:
        text = (
            f"{path}: {listed(unread)}: not read, because it is for a node in a namespace; to use "
            f"its values here, put them into a section {node!r}"
        )
        warnings.warn(text, ModelWarning, stacklevel=3)


def _places(above: Section, content: Mapping[Any, Any]) -> Iterator[Section]:
    """Yield the keys of the sections in a mapping of a parameter file, also in namespaces."""
    for key, body in content.items():
        if isinstance(body, dict):
            place = (*above, str(key))
            if "ros__parameters" in body:
                yield place
            else:
                yield from _places(place, body)


def parameter_sections(path: str | Path) -> dict[Section, dict[str, Any]]:
    """Return the parameters in all sections of a ROS 2 parameter file, also of other nodes.

    Args:
        path: the file; a file without content has no sections.

    Returns:
        Values by name for each section, in the order of the file.

    Raises:
        ParameterError: naming the file, if it is missing or not YAML, or has a section without a
            mapping ``ros__parameters`` of names to values.
    """
    with about(path):
        content = read_yaml(path, ParameterError)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise ParameterError(f"holds {quoted(content)}, not sections of parameters")
        return _sections_below((), content)


def _sections_below(above: Section, content: Mapping[Any, Any]) -> dict[Section, dict[str, Any]]:
    """Return the sections in a mapping of a parameter file whose keys are ``above``."""
    found: dict[Section, dict[str, Any]] = {}
    for key, body in content.items():
        place = (*above, str(key))
        is_namespace = isinstance(body, dict) and body and "ros__parameters" not in body
        if is_namespace and all(isinstance(inner, dict) for inner in body.values()):
            found |= _sections_below(place, body)
        else:
            found[place] = _section("/".join(place), body)
    return found


def _section(name: str, body: Any) -> dict[str, Any]:
    """Return the parameters of one section of a parameter file."""
    inner = body.get("ros__parameters") if isinstance(body, dict) else None
    if not isinstance(inner, dict):
        raise ParameterError(f"section {name!r} has no 'ros__parameters' with names and values")
    odd = [key for key in inner if not isinstance(key, str)]
    if odd:
        raise ParameterError(f"section {name!r} has {quoted(odd[0])} for the name of a parameter")
    return inner


def alternatives(unknown: object, known: Collection[str]) -> str:
    """Return advice for an unknown name as text: up to three similar known names.

    If there are none, the text has the number of known names, and as many of them as
    :func:`~rbd_control.wording.listed` shows.
    """
    near = get_close_matches(str(unknown)[:100], known, n=3, cutoff=0.6)
    if near:
        return f"the nearest {'is' if len(near) == 1 else 'are'} {listed(near)}"
    return f"there are {len(known)}: {listed(sorted(known))}"


def _checked(item: Field[Any], value: Any) -> Any:
    """Return the value of one field in its declared type, or raise a :class:`ParameterError`."""
    meta = cast("Mapping[str, Any]", item.metadata)
    if meta.get("per_joint"):
        return _checked_numbers(item.name, value, meta)
    if isinstance(item.default, bool):
        if not isinstance(value, bool):
            raise ParameterError(f"{item.name} is {quoted(value)}; give true or false")
        return value
    if isinstance(item.default, str):
        return _checked_text(item.name, value, meta["choices"])
    if isinstance(item.default, tuple):
        return _checked_list(item.name, value, meta)
    if isinstance(item.default, int):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ParameterError(f"{item.name} is {quoted(value)}; give a whole number")
        _check_bounds(item.name, _number(item.name, value), meta)
        return int(value)
    number = _number(item.name, value)
    _check_bounds(item.name, number, meta)
    return number


def _checked_text(name: str, value: Any, choices: Collection[str]) -> str:
    """Return the text of a field, or raise a :class:`ParameterError`."""
    if not isinstance(value, str):
        raise ParameterError(f"{name} is {quoted(value)}; give a text")
    if choices and value not in choices:
        raise ParameterError(f"{name} is {quoted(value)}; choices are {', '.join(choices)}")
    return value


def _checked_list(name: str, value: Any, meta: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the numbers, or the texts, of a field, or raise a :class:`ParameterError`."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise ParameterError(f"{name} is {quoted(value)}; give a list")
    if len(value) > MOST_VALUES:
        raise ParameterError(f"{name} has {len(value)} values; give at most {MOST_VALUES}")
    if meta["unit"]:
        return _checked_numbers(name, value, meta)
    if not all(isinstance(v, str) for v in value):
        raise ParameterError(f"{name} is {quoted(value)}; give a list of texts")
    return tuple(value)


def _checked_numbers(name: str, value: Any, meta: Mapping[str, Any]) -> tuple[float, ...]:
    # Not through an array, because numpy would expand nested lists of a file.
    several = hasattr(value, "__iter__") and not isinstance(value, (str, bytes, Mapping))
    values = (
        list(np.atleast_1d(value) if isinstance(value, np.ndarray) else value)
        if several
        else [value]
    )
    if len(values) > MOST_VALUES:
        raise ParameterError(f"{name} has {len(values)} values; give at most {MOST_VALUES}")
    if meta.get("per_joint") and not values:
        raise ParameterError(f"{name} is empty; give one value for all joints or one for each")
    numbers = tuple(_number(f"{name}[{i}]", v) for i, v in enumerate(values))
    for i, number in enumerate(numbers):
        _check_bounds(f"{name}[{i}]", number, meta)
    return numbers


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ParameterError(f"{name} is {quoted(value)}; give a number")
    try:
        return float(value)
    except OverflowError:
        raise ParameterError(f"{name} is {quoted(value)}; give a finite number") from None


def _check_bounds(name: str, value: float, meta: Mapping[str, Any]) -> None:
    unit = f" {meta['unit']}" if meta["unit"] else ""
    if not math.isfinite(value):
        raise ParameterError(f"{name} is {value}; give a finite number")
    if value < meta["lower"] or value > meta["upper"] or value <= meta["above"]:
        low = f"above {meta['above']}" if meta["above"] > -math.inf else f"at least {meta['lower']}"
        raise ParameterError(
            f"{name} is {value}{unit}; it must be {low} and at most {meta['upper']}{unit}"
        )
