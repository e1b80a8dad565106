"""Conversion of names and texts of a robot description to C identifiers, comments and literals."""

from __future__ import annotations

import re

from rbd_control.errors import InputError


def identifier(text: str) -> str:
    """Return ``text`` with every character that a C name cannot contain replaced by ``_``.

    A digit at the beginning remains, so use the result behind a prefix.
    """
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def checked_prefix(prefix: str) -> str:
    """Return a prefix of C names unchanged, after checking it.

    Raises:
        InputError: if the prefix is not a C identifier that begins with a letter.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix, re.ASCII):
        raise InputError(
            f"prefix {prefix!r} is no C identifier; give letters, digits and underscores, a letter "
            f"first, with --prefix"
        )
    return prefix


def default_prefix(name: str) -> str:
    """Return a valid prefix of C names, in lower case, made from the name of a robot or file.

    If the name does not yield a prefix that begins with a letter, the prefix begins with ``robot``.
    """
    made = identifier(name).strip("_").lower()
    if not made or made[0].isdigit():
        made = f"robot_{made}".rstrip("_")
    return made


def checked_header_name(name: str) -> str:
    """Return the name of a header unchanged, after checking it for ``#include``.

    Raises:
        InputError: if the name is empty or has characters other than ASCII letters, digits, spaces
            and ``. _ + - /``.
    """
    if not re.fullmatch(r"[\w.+/ -]+", name, re.ASCII):
        raise InputError(
            f"header name {name!r} has characters that #include does not accept everywhere; use "
            "letters, digits and . _ + -"
        )
    return name


def in_comment(text: str) -> str:
    """Return ``text`` in a form that is safe in a C comment.

    Characters other than printable ASCII become ``?``. Marks of comments and pairs of question
    marks are separated by a space.
    """
    shown = "".join(c if " " <= c <= "~" else "?" for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def literal(text: str) -> str:
    """Return ``text`` as a C string literal in UTF-8, with quotes; special bytes are escaped."""
    escaped = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        # Three octal digits, because a hexadecimal escape would include digits that follow.
        escaped.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(escaped)}"'
