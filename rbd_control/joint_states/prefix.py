"""Joint names that differ from the model's by one prefix: ``panda_joint1`` and ``fer_joint1``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from os.path import commonprefix

PATIENCE = 1.0
"""Time for which joint states are heard before a prefix is accepted [s]."""

MOST_ORDERS = 1000
"""Number of different lists of names that are looked at."""


def names_with_other_prefix(model: Sequence[str], names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return all sets of names that are those of the model but for one prefix, in its order.

    Args:
        model: the model's joints; those of a single joint are never matched.
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
    """Finds under which prefix joint states publish the model's joints.

    To be asked with the names of each joint state that lacks joints of the model. The names are
    accepted when they are the only ones that fit, among all joint states of :data:`PATIENCE`. When
    others turn up later, as those of a second arm, no prefix is accepted any more.

    Args:
        model: the model's joints.

    Attributes:
        found: names that are accepted; None as long as there are none.
        is_ambiguous: whether more than one set of names fits.
    """

    def __init__(self, model: Sequence[str]) -> None:
        self._model = tuple(model)
        self._seen: set[tuple[str, ...]] = set()
        self._fitting: set[tuple[str, ...]] = set()
        self._since = inf
        self.found: tuple[str, ...] | None = None
        self.is_ambiguous = False

    def look(self, names: Sequence[str], now: float) -> bool:
        """Take the names of a joint state; return whether the answer has changed.

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
        # With one of the model's own names the others are missing, not renamed.
        if set(order) & set(self._model):
            return
        self._fitting.update(names_with_other_prefix(self._model, order))
        if self._fitting:
            self._since = min(self._since, now)
        if len(self._fitting) > 1:
            self.found, self.is_ambiguous = None, True
