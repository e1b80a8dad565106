"""Joint names that differ from the model's by one prefix: ``panda_joint1`` and ``fer_joint1``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from os.path import commonprefix

PATIENCE = 1.0
"""Time of reception before a prefix is accepted [s]."""

MOST_ORDERS = 1000
"""Maximum number of different lists of names that are checked."""


def names_with_other_prefix(model: Sequence[str], names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return all sets of names that differ from the model's by one prefix, in the model's order.

    Args:
        model: the model's joints; a model with a single joint is never matched.
        names: the names to search.
    """
    prefix = commonprefix(list(model))
    rests = [name[len(prefix) :] for name in model]
    if len(rests) < 2:
        return []
    known = set(names)
    sets = {
        tuple(name[: len(name) - len(rests[0])] + rest for rest in rests)
        for name in known
        if name.endswith(rests[0])
    }
    return sorted(found for found in sets if set(found) <= known)


class PrefixMatch:
    """Finds the prefix under which joint states publish the model's joints.

    Call :meth:`look` with the names of each joint state that lacks joints of the model. Names are
    accepted if they are the only matching set in all joint states during :data:`PATIENCE`. No
    prefix is accepted any more if another matching set appears later, such as a second arm's, or
    the model's own names.

    Args:
        model: the model's joints.

    Attributes:
        found: the accepted names; None as long as no names are accepted.
        is_ambiguous: whether more than one set of names matches.
    """

    def __init__(self, model: Sequence[str]) -> None:
        self._model = tuple(model)
        self._seen: set[tuple[str, ...]] = set()
        self._fitting: set[tuple[str, ...]] = set()
        self._since = inf
        self._is_exact = False
        self.found: tuple[str, ...] | None = None
        self.is_ambiguous = False

    def look(self, names: Sequence[str], now: float) -> bool:
        """Process the names of a joint state; return whether the result has changed.

        Args:
            names: its names.
            now: time of receipt on the steady clock [s].
        """
        before = (self.found, self.is_ambiguous)
        order = tuple(names)
        if order not in self._seen and len(self._seen) < MOST_ORDERS:
            self._seen.add(order)
            self._take(order, now)
        if len(self._fitting) == 1 and now - self._since >= PATIENCE:
            (self.found,) = self._fitting
        return before != (self.found, self.is_ambiguous)

    def _take(self, order: tuple[str, ...], now: float) -> None:
        if self._is_exact or set(order) >= set(self._model):
            self._is_exact, self.found, self._fitting = True, None, set()
            return
        # If the message has one of the model's names, the others are missing, not renamed.
        if set(order) & set(self._model):
            return
        self._fitting.update(names_with_other_prefix(self._model, order))
        if self._fitting:
            self._since = min(self._since, now)
        if len(self._fitting) > 1:
            self.found, self.is_ambiguous = None, True
