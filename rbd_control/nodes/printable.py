"""Text from elsewhere, fit for a log, a terminal and a message."""

from __future__ import annotations

LONGEST = 200
"""Length above which text is cut [characters]."""


def printable(text: str, longest: int = LONGEST) -> str:
    """Return ``text`` without control characters and what cannot be encoded, cut to ``longest``.

    Control characters would reach the terminal of whoever looks at it, and a message with a lone
    surrogate cannot be published.
    """
    if text.isprintable() and len(text) <= longest:
        return text
    kept = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in kept)
