"""Results as dataclasses: JSON, key-values of topics, their parser and their page, from the fields.

A field of a result is declared once, with :func:`value`. :func:`plain` makes the values for JSON,
:func:`key_values` the texts of a status (diagnostic_msgs), :func:`parsed` reads them back, and
:func:`key_table` describes them in the documentation. A value that is computed from the fields is a
:class:`Derived` in the class attribute ``DERIVED``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from rbd_control.wording import shortened

LONGEST = 200
"""Length above which a name in a status is cut [characters]."""

MOST_VALUES = 200
"""Maximum number of key-value pairs, and of names in one value, that are read from a status."""


@dataclass(frozen=True)
class Derived:
    """A value that is computed from a result, as an entry of its key-values, JSON or both."""

    key: str
    description: str
    of: Callable[[Any], Any]
    form: str = ".6g"
    unknown: str = ""
    on_topic: bool = True
    in_json: bool = False


class Result:
    """Base of a result, a frozen dataclass of fields from :func:`value`."""

    DERIVED: ClassVar[tuple[Derived, ...]] = ()


R = TypeVar("R", bound=Result)


def value(  # noqa: PLR0913 - one keyword for each entry of the metadata of a field
    description: str,
    *,
    default: Any = MISSING,
    key: str = "",
    form: str = ".6g",
    unknown: str = "",
    components: str = "",
    in_json: bool = True,
    heading: str = "",
    digits: int = 2,
    unit: str = "",
    scale: float = 1.0,
) -> Any:
    """Declare one field of a result.

    Args:
        description: meaning with unit, for the documentation of the topic; it begins with a small
            letter.
        default: value that stands for an unknown one; such a field is optional in :func:`parsed`.
        key: key on the topic; the name of the field by default.
        form: format of numbers on the topic.
        unknown: text on the topic for None and NaN.
        components: what a component of a vector of three is; the topic then has each as a number
            of its own, with ``_x``, ``_y`` and ``_z`` after the key.
        in_json: whether the field is part of :func:`plain`.
        heading: heading of its column in tables, with unit; empty for none.
        digits, unit, scale: decimal places of a number in a table, the text after it, its factor.
    """
    return field(
        default=default,
        metadata={
            "description": description,
            "key": key,
            "form": form,
            "unknown": unknown,
            "components": components,
            "in_json": in_json,
            "heading": heading,
            "digits": digits,
            "unit": unit,
            "scale": scale,
        },
    )


def plain(result: Any) -> Any:
    """Return a result as plain values that ``json`` can write.

    A dataclass becomes a dictionary of its fields and of its :class:`Derived` values for JSON, an
    array or tuple a list; numbers that are not finite become None.
    """
    if hasattr(result, "__dataclass_fields__"):
        items = {
            item.name: getattr(result, item.name)
            for item in fields(result)
            if item.metadata.get("in_json", True)
        }
        derived = (each for each in getattr(result, "DERIVED", ()) if each.in_json)
        return plain(items | {each.key: each.of(result) for each in derived})
    if isinstance(result, Mapping):
        return {key: plain(each) for key, each in result.items()}
    if hasattr(result, "_asdict"):
        return plain(result._asdict())
    if isinstance(result, (tuple, list)):
        return [plain(each) for each in result]
    if isinstance(result, (np.ndarray, np.generic)):
        return plain(result.tolist())
    return None if isinstance(result, float) and not math.isfinite(result) else result


def figures(kind: type[Result]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return name, key and metadata of each field with a heading, in the order of the columns."""
    items = fields(kind)  # type: ignore[arg-type]
    shown = [item for item in items if item.metadata and item.metadata["heading"]]
    return [(item.name, item.metadata["key"] or item.name, item.metadata) for item in shown]


def key_values(result: Result) -> dict[str, str]:
    """Return the texts of a result on a topic by key: fields, derived values, components."""
    entries = _entries(type(result))
    return {key: _text(of(result), form, unknown) for key, _, of, form, unknown in entries}


def key_table(kind: type[Result]) -> list[str]:
    """Return the rows of a table in Markdown: key, when it appears, and its meaning."""
    return [f"| `{key}` | always | {text} |" for key, text, *_ in _entries(kind)]


def parsed(kind: type[R], values: Mapping[str, str]) -> R:
    """Return the result whose texts are ``values``; names longer than :data:`LONGEST` are cut.

    Raises:
        KeyError: if the value of a field without default is missing.
        ValueError: if a text is no value of its field.
    """
    types = get_type_hints(kind)
    return kind(
        **{
            item.name: _read(types[item.name], values, item.metadata["key"] or item.name, item)
            for item in fields(kind)  # type: ignore[arg-type]
        }
    )


_Entry = tuple[str, str, Callable[[Any], Any], str, str]
"""Key, description, function that returns the value, format and text for unknown values."""


def _entries(kind: Any) -> tuple[_Entry, ...]:
    items = fields(kind)
    return (
        *(entry for item in items for entry in _of_field(item)),
        *(
            (each.key, each.description, each.of, each.form, each.unknown)
            for each in kind.DERIVED
            if each.on_topic
        ),
        *(entry for item in items for entry in _of_components(item)),
    )


def _of_field(item: Any) -> Iterator[_Entry]:
    meta = item.metadata
    yield (
        meta["key"] or item.name,
        meta["description"],
        lambda result: getattr(result, item.name),
        meta["form"],
        meta["unknown"],
    )


def _of_components(item: Any) -> Iterator[_Entry]:
    def component(axis: int) -> Callable[[Any], Any]:
        def of(result: Any) -> Any:
            vector = getattr(result, item.name)
            return None if vector is None else vector[axis]

        return of

    meaning = item.metadata["components"]
    for axis, letter in enumerate("xyz" if meaning else ""):
        text = f"{meaning}; `nan` where it is not observable" if not axis else ""
        text = text or f"as `{item.name}_x`"
        yield f"{item.name}_{letter}", text, component(axis), ".6g", "nan"


def _text(content: Any, form: str, unknown: str) -> str:
    """Return a value of a topic as text."""
    if isinstance(content, tuple):
        return " ".join(content)
    if isinstance(content, np.ndarray):
        return " ".join(f"{float(x):{form}}" for x in content)
    if isinstance(content, bool):
        return str(int(content))  # a number can be plotted
    if content is None or (isinstance(content, float) and math.isnan(content)):
        return unknown
    return f"{float(content):{form}}" if isinstance(content, float) else str(content)


def _read(  # noqa: PLR0911 - one for each type of field
    kind: Any, values: Mapping[str, str], key: str, item: Any
) -> Any:
    """Return the value of a field from its text, by the type of the field."""
    text = values[key] if item.default is MISSING else values.get(key, "")
    options = get_args(kind)
    if get_origin(kind) is Literal:
        if text not in options:
            raise ValueError(f"{key} is {text[:40]!r}")
        return text
    if kind is bool:
        return bool(int(text)) if text else item.default
    if kind is int:
        return int(text)
    if kind is str:
        return shortened(text, LONGEST)
    if get_origin(kind) is tuple:
        return tuple(shortened(name, LONGEST) for name in text.split()[:MOST_VALUES])
    if not text and type(None) in options:
        return None
    if np.ndarray in options:
        return np.array([_finite(part) for part in _three(text)])
    if item.default is MISSING:
        return _finite(text)
    return float(text) if text else item.default


def _three(text: str) -> list[str]:
    parts = text.split(maxsplit=3)
    if len(parts) != 3:
        raise ValueError(f"{text[:40]!r} has not three numbers")
    return parts


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]!r} is not finite")
    return number
