"""Joint names that differ from the model's by one prefix: ``panda_joint1`` and ``fer_joint1``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf
from os.path import commonprefix

PATIENCE = 1.0
"""Time from the first match to the acceptance of a prefix, if no other prefix matches [s]."""

MOST_ORDERS = 1000
"""Maximum number of different lists of names that are checked; further lists are ignored."""


def names_with_other_prefix(
    model: Sequence[str], names: Iterable[str], others: Collection[str] = ()
) -> list[tuple[str, ...]]:
    """Return all sets of names that differ from the model's by one prefix.

    For the model's ``panda_joint1``, ``panda_joint2`` and the names ``fer_joint1``, ``fer_joint2``
    the result is ``[("fer_joint1", "fer_joint2")]``. The model's own names are also a set if all of
    them occur. A set that belongs to other joints of the description, such as those of a second
    arm, is left out, see :func:`belongs_to_others`.

    Args:
        model: the model's joints; a model with a single joint is never matched.
        names: the names to search, in any order.
        others: the other joints of the description.

    Returns:
        The sets, each with one name for each joint of the model, in its order.
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
    return sorted(
        found
        for found in sets
        if set(found) <= known and not belongs_to_others(found, model, others)
    )


def renamed(name: str, model: Sequence[str], found: Sequence[str]) -> str:
    """Return a joint's name with the prefix of joint states in place of the description's.

    Args:
        name: name of a joint beside the model's, such as ``panda_finger_joint1``.
        model: the model's joints, ``panda_joint1`` and so on.
        found: their names in the joint states, ``fer_joint1`` and so on; the result is then
            ``fer_finger_joint1``. A name without the prefix of the model is returned unchanged.
    """
    before, after = commonprefix(list(model)), commonprefix(list(found))
    same = len(commonprefix([before[::-1], after[::-1]]))
    before, after = before[: len(before) - same], after[: len(after) - same]
    return after + name.removeprefix(before) if name.startswith(before) else name


def belongs_to_others(found: Sequence[str], model: Sequence[str], others: Collection[str]) -> bool:
    """Return whether a set of names belongs to other joints of the description.

    It does if one of the names is the name of such a joint, or if all of them are names of such
    joints behind one prefix. If the model's names are joints ``joint_1``, ``joint_2`` and the
    others ``left_joint_1``, ``left_joint_2``, both ``left_joint_1``, ``left_joint_2`` and
    ``ur_left_joint_1``, ``ur_left_joint_2`` belong to the others, and ``ur_joint_1``,
    ``ur_joint_2`` do not.

    Args:
        found: the names, in the model's order.
        model: the model's joints.
        others: the other joints of the description.
    """
    others = set(others)
    if not others.isdisjoint(found):
        return True
    # A shorter prefix leaves more of the name, so its match is the more exact one.
    for size in range(len(commonprefix(list(found))) + 1):
        rests = [name[size:] for name in found]
        if rests == list(model):
            return False
        if others.issuperset(rests):
            return True
    return False


class PrefixMatch:
    """Finds the prefix under which joint states publish the model's joints.

    Call :meth:`look` with the names of each joint state that lacks joints of the model. A set of
    names that differs from the model's by one prefix is accepted if no other set has matched until
    :data:`PATIENCE` after the first match. If another set matches later, such as a second arm's, or
    the model's own names appear, the acceptance ends and no set is accepted any more. A set that
    belongs to other joints of the description is never accepted and does not count as a match: it
    is another arm, whose driver may have started before the driver of the model's arm.

    Args:
        model: the model's joints.
        others: the other joints of the description, held and fixed joints included.

    Attributes:
        others: as given.
        found: the accepted names, in the model's order; None while no names are accepted.
        is_ambiguous: whether more than one set of names matches.
    """

    def __init__(self, model: Sequence[str], others: Collection[str] = ()) -> None:
        self._model = tuple(model)
        self.others = frozenset(others)
        self._seen: set[tuple[str, ...]] = set()
        self._fitting: set[tuple[str, ...]] = set()
        self._since = inf
        self._is_exact = False
        self.found: tuple[str, ...] | None = None
        self.is_ambiguous = False

    def look(self, names: Sequence[str], now: float) -> bool:
        """Process the names of a joint state.

        Args:
            names: the joint names in the message.
            now: time of receipt on the steady clock [s].

        Returns:
            Whether ``found`` or ``is_ambiguous`` has changed.
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
        self._fitting.update(names_with_other_prefix(self._model, order, self.others))
        if self._fitting:
            self._since = min(self._since, now)
        if len(self._fitting) > 1:
            self.found, self.is_ambiguous = None, True
