"""Which link was touched, where, and with what force, from the pattern of the residual.

A force ``F`` at a point of a link leaves ``r = Jᵀ [m; F]``, with J the Jacobian of some place on
the link and ``m`` the moment of F about that place; joints beyond the link feel nothing. Each
link offers places along its middle: its origin, its centre of mass, the origins of what is fixed
to it, and on the way to the links it carries. The contact is taken to be some centimetres about
one of them, or as idealised pushes go right at the origin or the centre of mass, its force of any
direction and of any size within decades. Then each place has a probability to leave
the residual seen (Bayes' rule, in closed form as all is normal), and so has each link. A link that
explains the residual only by a coincidence, a force without torque about its own joint say, is
thereby less probable than one that explains it with any force.

A contact is looked at again and again while it lasts. The looks are averaged, each with the square
of its residual as weight, so that noise falls and the peak counts; what does not fall is the part
of the noise that is model error.

A force component that hardly moves any joint cannot be known from joint torques. Where the force
expected is not known well enough the answer is "not observable", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.isolation_kernel import expected, noise_factor, take_in, weigh

SPACING = 0.06
"""Of the places along a link [m]."""
MOST_PLACES = 50
"""Largest number of places from a link's origin to one end, for links longer than any arm's."""
SPREAD = 0.035
"""Standard deviation of where a contact is about a place [m]: as thick as arms are."""
IDEAL = 0.07
"""Probability of a push right at an origin or a centre of mass."""
SIZES = np.array([2.0, 6.0, 18.0, 54.0, 162.0, 486.0])
"""Standard deviations of the force along each axis [N], all of them as likely beforehand."""
NAMED = 0.86
"""The links named have this probability together."""
KNOWN = 0.4
"""A force is known when its standard deviation is less than this part of it."""
PLACED = 0.06
"""A point is known when its standard deviation is less than this [m]."""
NOISE = (1e-6, 1e9)
"""Bounds of the standard deviation of a residual, so that its square can be inverted [N·m or N]."""
SIGMAS = 10.0
"""Thresholds that allow for other motions than recorded stand so many standard deviations high."""


@dataclass(frozen=True)
class Isolation:
    """The link a residual points to."""

    link: str
    """The most probable one."""
    candidates: tuple[str, ...]
    """Links that explain the residual, the most probable first: one of them was touched."""
    confidence: float
    """Probability of ``link``, in [0, 1]."""
    force: np.ndarray | None
    """Force the environment applies, (3,) world axes [N]; None where it is not observable."""
    point: np.ndarray | None
    """A point of the force's line of action, the one nearest to the middle of the link, (3,)
    world axes [m]; None where it is not observable."""
    misfit: float
    """Root mean square of the unexplained residual, in standard deviations."""


def found(isolation: Isolation | None) -> dict[str, Any]:
    """Return the part of it that detections and events tell as it is."""
    if isolation is None:
        return {"link": ""}
    names = ("link", "candidates", "confidence", "point")
    return {name: getattr(isolation, name) for name in names}


def residual_noise(covariance: np.ndarray | None, threshold: np.ndarray) -> np.ndarray:
    """What the residual without contact may be, (nv, nv) covariance [(N·m)² or N²].

    Args:
        covariance: as measured, (nv, nv); None where it was not.
        threshold: detection threshold of each joint, (nv,) [N·m or N].
    """
    if covariance is not None:
        return covariance
    return np.diag(np.clip(threshold / SIGMAS, *NOISE) ** 2)


class LinkIsolation:
    """Isolation and force estimate for one model, of one contact after the other.

    Args:
        model: the robot.
        covariance: of the residual without contact, (nv, nv) [(N·m)² or N²].
        force_uncertainty: largest standard deviation of the force still called observable [N].
    """

    def __init__(self, model: Model, covariance: np.ndarray, force_uncertainty: float) -> None:
        self._model = model
        self._covariance = np.ascontiguousarray(covariance, dtype=float)
        self._whitening = np.linalg.inv(np.linalg.cholesky(self._covariance))
        self._limit = force_uncertainty
        first = model.nv - len(model.joint_names)
        places = [_places(model, body) for body in range(first, model.bodies)]
        self._offsets = np.concatenate([np.concatenate(both) for both in places])
        count = [len(ideal) + len(middle) for ideal, middle in places]
        self._bodies = np.repeat(np.arange(first, model.bodies), count)
        self._starts = np.cumsum([0, *count])
        k = len(self._bodies)
        self._spreads, self._prior = np.empty(k), np.empty((k, 1))
        for start, end, (ideal, middle) in zip(
            self._starts[:-1], self._starts[1:], places, strict=True
        ):
            self._spreads[start:end] = np.repeat([0.0, SPREAD], [len(ideal), len(middle)])
            each = [IDEAL / len(ideal), (1.0 - IDEAL) / len(middle)]
            self._prior[start:end, 0] = np.repeat(each, [len(ideal), len(middle)])
        self._jacobians = np.empty((k, model.nv, 6))
        self._sums = np.empty(2 + 3 * model.nv)
        self._all, self._none = np.ones(model.nv), np.zeros(model.nv)
        self._at = np.empty((k, 3))
        self._information, self._projected = np.empty((k, 6, 6)), np.empty((k, 6))
        self._evidence = np.empty((k, SIZES.size))
        self._result = np.empty((4, 3))
        self._gain = np.zeros((3, model.nv))
        self._known = False
        self.begin()

    def begin(self) -> None:
        """Forget the contact looked at so far: another one begins."""
        self._jacobians[:] = 0.0
        self._sums[:] = 0.0
        self._known = False

    def isolate(
        self,
        q: np.ndarray,
        residual: np.ndarray,
        risen: np.ndarray | None = None,
        doubt: np.ndarray | None = None,
    ) -> Isolation:
        """Name the link and estimate the force from one sample alone; as :meth:`look`."""
        self.begin()
        return self.look(q, residual, risen, doubt)

    def look(
        self,
        q: np.ndarray,
        residual: np.ndarray,
        risen: np.ndarray | None = None,
        doubt: np.ndarray | None = None,
    ) -> Isolation:
        """Name the link from all looks at this contact, and estimate the force of this moment.

        Looks should lie a time constant of the observer apart, since they count as independent.

        Args:
            q: joint positions, (nq,) [rad or m].
            residual: r, (nv,) [N·m or N].
            risen: part of a constant torque that each residual shows by now, (nv,); all of it
                where not given. Residuals of unlike gains rise in another pattern than they stay.
            doubt: standard deviation of what friction that changes its sign, and speed, may add to
                each residual now, (nv,) [N·m or N]; nothing where not given.
        """
        risen = self._all if risen is None else risen
        doubt = self._none if doubt is None else doubt
        q = np.ascontiguousarray(q, dtype=float)
        shared = (self._jacobians, self._sums)
        arguments = (self._bodies, self._offsets, residual, risen, doubt, self._whitening, self._at)
        take_in(self._model.packed, q, *arguments, *shared)
        factor = noise_factor(self._covariance, self._sums)
        fit = (factor, SIZES, self._spreads, self._information, self._projected)
        square = weigh(*shared, *fit, self._evidence)
        weights = self._prior * np.exp(self._evidence - self._evidence.max())
        weights /= weights.sum()
        probability = np.add.reduceat(weights.sum(axis=1), self._starts[:-1])
        order = np.argsort(-probability, kind="stable")
        best = int(order[0])
        weights[: self._starts[best]] = 0.0
        weights[self._starts[best + 1] :] = 0.0
        weights /= probability[best]
        misfit = expected(*shared, *fit, self._at, weights, self._result, self._gain)
        mean = self._result[0]
        deviation = np.sqrt(self._result[2, 0])
        self._known = bool(deviation < min(self._limit, KNOWN * np.linalg.norm(mean)))
        placed = self._known and self._result[3, 0] < PLACED**2
        links = self._model.body_links
        named = int(np.searchsorted(np.cumsum(probability[order]), NAMED)) + 1
        return Isolation(
            link=links[best],
            candidates=tuple(links[i] for i in order[:named]),
            confidence=min(float(probability[best]), 1.0),
            force=self.force(residual),
            point=self._result[1] + self._root(q) if placed else None,
            misfit=float(np.sqrt(max(square + misfit, 0.0) / residual.size)),
        )

    def force(self, residual: np.ndarray) -> np.ndarray | None:
        """Force at the link and place that the last look pointed to, for another residual.

        Args:
            residual: r, (nv,) [N·m or N].

        Returns:
            (3,) world axes [N]; None where it is not observable.
        """
        return self._gain @ residual if self._known else None

    def _root(self, q: np.ndarray) -> np.ndarray:
        """Of the axes that places are told in, (3,) world axes [m]."""
        return q[:3] if self._model.floating_base else np.zeros(3)


def _places(model: Model, body: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a body may be touched: at a place itself, about a place; (k, 3) in its frame [m]."""
    arrays = model.arrays
    fixed = [link for link, row in model.link_body.items() if row == body]
    ideal = [np.zeros(3)]
    if arrays.mass[body] > 0.0:
        ideal.append(arrays.first_moment[body] / arrays.mass[body])
    carried = np.flatnonzero(arrays.parent[: model.bodies] == body)
    middle = [np.zeros(3)]
    ends = [model.link_placement[link][:3, 3] for link in fixed]
    for end in (*ideal, *ends, *arrays.translation[carried]):
        steps = min(int(np.ceil(np.linalg.norm(end) / SPACING)), MOST_PLACES)
        for place in np.linspace(np.zeros(3), end, steps + 1)[1:]:
            if min(np.linalg.norm(place - other) for other in middle) > 0.5 * SPACING:
                middle.append(place)
    return np.unique(np.round(ideal, 6), axis=0), np.array(middle)
