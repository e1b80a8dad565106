"""Conversion of names and texts of a robot description to C identifiers, comments and literals."""

from __future__ import annotations

import re

from rbd_control.errors import InputError


def identifier(text: str) -> str:
    """Return ``text`` with every character that a C name cannot contain as an underscore."""
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
    """Return a prefix made from the name of a robot or file."""
    made = identifier(name).strip("_").lower()
    if not made or made[0].isdigit():
        made = f"robot_{made}".rstrip("_")
    return made


def checked_header_name(name: str) -> str:
    """Return the name of a header, for ``#include``.

    Raises:
        InputError: for characters that have a meaning of their own there, or none in ASCII.
    """
    if not re.fullmatch(r"[\w.+/ -]+", name, re.ASCII):
        raise InputError(
            f"header name {name!r} has characters that #include does not accept everywhere; use "
            "letters, digits and . _ + -"
        )
    return name


def in_comment(text: str) -> str:
    """Return ``text`` for a C comment: printable ASCII without the marks of comments."""
    shown = "".join(c if " " <= c <= "~" else "?" for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def literal(text: str) -> str:
    """Return ``text`` as a C string literal in UTF-8."""
    escaped = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        # Three octal digits, because a hexadecimal escape would include digits that follow.
        escaped.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(escaped)}"'
