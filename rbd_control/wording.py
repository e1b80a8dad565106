"""Values and names as they appear in messages: short, printable and on one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from reprlib import Repr

VALUE_LENGTH = 40
"""Longest value shown in a message [characters]."""

LIST_LENGTH = 70
"""Longest list of names shown in a message [characters]."""

_MAX_BITS = 128
"""Largest integer whose digits are shown [bits]; the conversion of longer ones takes long."""

_REPR = Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxtuple, _REPR.maxdict, _REPR.maxset = 2, 4, 4, 3, 3
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = VALUE_LENGTH


def printable(text: str) -> str:
    """Return ``text`` with line ends and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def rounded(value: float, digits: int = 2) -> str:
    """Return a number with significant digits, without an exponent below a million: ``1500``."""
    return f"{float(f'{value:.{digits}g}'):g}"


def shortened(text: str, length: int) -> str:
    """Return ``text`` printable and cut to ``length`` characters, ending in an ellipsis if cut."""
    # Escapes only lengthen the text, so no character after these can be shown.
    shown = printable(text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def abridged(text: str, length: int) -> str:
    """Return ``text`` printable and cut to ``length`` characters.

    The middle is replaced by an ellipsis, because the end of a message often has the remedy.
    """
    # Escapes only lengthen the text, so no character between these parts can be shown.
    shown = printable(text if len(text) <= 2 * length else text[:length] + text[-length:])
    if len(shown) <= length:
        return shown
    tail = length * 2 // 5
    return f"{shown[: length - tail - 3]} … {shown[-tail:]}"


def quoted(value: object, length: int = VALUE_LENGTH) -> str:
    """Return a value for a message: text in quotes, other values as Python represents them.

    An integer of more than 128 bits is described by its number of bits.

    Computing time and length are bounded for values of any size and nesting depth.

    Args:
        value: any object.
        length: longest result, without the quotes [characters]; longer texts end in an ellipsis.
    """
    if isinstance(value, str):
        return f"'{shortened(value, length)}'"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        shown = _REPR.repr(value)
    except Exception:  # the representation of a foreign object can fail
        shown = f"a {type(value).__name__}"
    return shortened(shown, length)


def listed(names: Iterable[str], length: int = LIST_LENGTH, separator: str = ", ") -> str:
    """Return names separated by commas, with their number if not all fit: ``a, b, … (7)``.

    Args:
        names: the names; each is cut to ``VALUE_LENGTH`` characters.
        length: longest text of the shown names [characters]; the first is always shown.
        separator: text between two names.

    Returns:
        The text; ``none`` without names.
    """
    every = list(names)
    if not every:
        return "none"
    shown: list[str] = []
    left = length
    for name in every:
        text = shortened(name, VALUE_LENGTH)
        left -= len(text) + len(separator)
        if left < 0 and shown:
            return separator.join([*shown, f"… ({len(every)})"])
        shown.append(text)
    return separator.join(shown)


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as text, such as ``3 x old stamp``, without counts of zero."""
    return ", ".join(f"{count} x {reason}" for reason, count in counts.items() if count)
