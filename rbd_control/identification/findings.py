"""Findings of a check: lines with a level and their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["good", "doubtful", "bad"]
LEVELS: tuple[Level, ...] = ("good", "doubtful", "bad")
"""Levels of a line, the best first."""


@dataclass(frozen=True)
class Line:
    """One finding of the check, a line of its page."""

    topic: str
    """Topic of the line, such as ``rate`` or ``effort``."""
    level: Level
    """``good`` (green), ``doubtful`` (yellow) or ``bad`` (red)."""
    text: str
    """The finding with its numbers, and the remedy."""
    values: dict[str, Any] = field(default_factory=dict)
    """The numbers as plain values that ``json`` can write."""
    is_finding: bool = True
    """Whether the line says something about the arm, not only that the motion says too little."""

    def to_json(self) -> dict[str, Any]:
        """Return the line as plain values for ``json``."""
        return {"topic": self.topic, "level": self.level, "text": self.text, **self.values}


def worst(lines: tuple[Line, ...]) -> Level:
    """Return the worst level of lines; ``good`` without lines."""
    return LEVELS[max((LEVELS.index(line.level) for line in lines), default=0)]


def graded(value: float, bounds: tuple[float, float]) -> Level:
    """Return ``good`` up to the first bound, ``bad`` above the second, ``doubtful`` in between."""
    if value > bounds[1]:
        return "bad"
    return "doubtful" if value > bounds[0] else "good"
