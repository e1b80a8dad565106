"""Explanations of a motion without its apparent contacts.

An apparent contact is an outlier of the residual relative to the rest of the motion. If it were
kept, it would be explained as a bias, a payload or a wrong unit. If more than :data:`MOST_TOUCHED`
of the samples would be left out, the cause is an error of the model, not a contact, and no further
samples are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.evidence import Evidence
from rbd_control.check.explanations import Explanation, explain_in_steps

Array = NDArray[np.float64]

OUTLYING = 8.0
"""Smallest residual of an apparent contact, in robust standard deviations from the median.

The larger of this bound and the bound by :data:`OUTLYING_SHARE` applies.
"""
OUTLYING_SHARE = 0.1
"""Smallest residual of an apparent contact, as a fraction of the default contact threshold."""
MOST_TOUCHED = 0.35
"""Largest share of the time that is excluded as contact; more indicates a model error."""
PAD = 4
"""Number of filtered samples on each side of an apparent contact that are excluded as well."""
PASSES = 3
"""Maximum number of searches, each without the contacts found by the previous one."""


@dataclass(frozen=True, eq=False)
class Undisturbed:
    """The explanations of the misfit of a motion without its apparent contacts.

    Attributes:
        found: the explanations in the order of the search.
        evidence: the regression of the samples of the last search, corrected by the explanations;
            these include the contacts that only the last of :data:`PASSES` searches found.
        kept: which of the n filtered samples are kept, (n,) bool.
        joints: joints whose residual is an outlier in the samples that are left out, (nv,) bool.
    """

    found: tuple[Explanation, ...]
    evidence: Evidence
    kept: NDArray[np.bool_]
    joints: NDArray[np.bool_]

    @property
    def touched(self) -> float:
        """Fraction of the samples that are left out as apparent contacts."""
        return float(1.0 - self.kept.mean())


def explain_undisturbed(
    gathered: Evidence,
    level: Array,
    alive: NDArray[np.bool_],
    exchanged: Callable[[int, int], Evidence | None],
    *,
    has_gravity: bool = True,
) -> Generator[None, None, Undisturbed]:
    """Yield after each explanation that was tried, and return the explanations of the motion.

    The search of :func:`~rbd_control.check.explanations.explain_in_steps` is repeated, up to
    :data:`PASSES` times in all, without the samples in which the remaining residual is an outlier.

    Args:
        gathered: evidence (regression of the efforts) of the whole motion.
        level: default contact threshold of each joint, (nv,) [N·m or N].
        alive: joints whose effort is measured, (nv,).
        exchanged: returns the evidence of the whole motion with the names of two joints, given by
            their indices in v, exchanged; None if there is no evidence.
        has_gravity: whether the declared effort includes the gravity torque.
    """
    kept = np.ones(len(gathered.raw), dtype=bool)
    joints = np.zeros(gathered.raw.shape[1], dtype=bool)
    found: tuple[Explanation, ...] = ()
    evidence = gathered
    for _ in range(PASSES):

        def exchanged_and_kept(i: int, j: int, kept: NDArray[np.bool_] = kept) -> Evidence | None:
            evidence = exchanged(i, j)
            if evidence is None or len(evidence.raw) != kept.size:
                return None
            return evidence.rows(kept)

        found, evidence = yield from explain_in_steps(
            gathered.rows(kept), level, alive, exchanged_and_kept, has_gravity=has_gravity
        )
        by_joint = _outlying(evidence, level, alive)
        out = _padded(np.asarray(by_joint.any(axis=1)))
        more = kept.copy()
        more[np.flatnonzero(kept)[out]] = False
        if not out.any() or 1.0 - more.mean() > MOST_TOUCHED:
            break
        kept = more
        joints |= by_joint.any(axis=0)
    return Undisturbed(found, evidence, kept, joints)


def _outlying(evidence: Evidence, level: Array, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the residual of each joint looks like contact, (n, nv) bool."""
    residual = evidence.effort - evidence.need
    centre = np.median(residual, axis=0)
    spread = 1.4826 * np.median(np.abs(residual - centre), axis=0)
    limit = np.maximum(OUTLYING * spread, OUTLYING_SHARE * level)
    return np.asarray((np.abs(residual - centre) > limit) & alive)


def _padded(out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the samples in ``out`` (n,) and :data:`PAD` neighbours on both sides, (n,) bool."""
    near = np.convolve(out, np.ones(2 * PAD + 1))[PAD : PAD + out.size]
    return np.asarray(near > 0.5)  # noqa: PLR2004 - counts: one or more
