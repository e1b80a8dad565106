"""Isolation: name the touched link, the place and the force from the pattern of the residual.

A force ``F`` at a point of a link causes ``r = Jᵀ [m; F]``, with J the Jacobian of a place on the
link and ``m`` the moment of F about that place; joints beyond the link carry nothing. Two kinds of
contact are possible:

- A **push**. Each link has places along its middle: its origin, its centre of mass, the origins of
  links fixed to it, and the ways to the links it carries. A push acts some centimetres about one of
  them, or right at the origin or centre of mass (idealised pushes), in any direction.
- A **collision** of the moving arm with an obstacle. Each link has places on the surface of its
  collision geometry. An obstacle can touch only places that move outward, its force points into
  the surface and against the motion, and a place is as likely as its area times its outward speed.
  A link without known geometry has the places along its middle, and only the motion counts; an
  arm of which no geometry is known at all is taken to be pushed.

Both have any size within decades. Then each place has a probability to cause the residual (Bayes'
rule; in closed form, as all is normal), and so has each link. A link that explains the residual
only by a coincidence, such as a force without torque about its own joint, is therefore less
probable than a link that explains it with any force.

A contact is looked at repeatedly while it lasts. The looks are averaged with the squared size of
their residuals as weights, so that noise falls and the peak counts; the model error does not fall.

A force component that hardly moves any joint cannot be known from joint torques. Where the expected
force is not known well enough the answer is "not observable", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.isolation_kernel import (
    approach,
    expected,
    noise_factor,
    take_in,
    weigh,
)
from rbd_control.robot.surface import NO_SURFACE, Surface

SPACING = 0.06
"""Of the places along a link [m]."""
MOST_PLACES = 50
"""Largest number of places from a link's origin to one end, for links longer than any arm's."""
SPREAD = 0.035
"""Standard deviation of where a contact is about a place [m]: as thick as arms are."""
IDEAL = 0.07
"""Probability of a push right at an origin or a centre of mass."""
PATCH = 0.02
"""Standard deviation of where a collision is about a place on the surface [m]."""
COLLISION, CONTACT = 0.95, 0.5
"""Probability that a contact of each level is with an obstacle and not a push, beforehand."""
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
    """Return the covariance of the residual without contact, (nv, nv) [(N·m)² or N²].

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
        surface: points on the collision geometry of the links.

    Attributes:
        noise: standard deviation of each residual without contact, (nv,) [N·m or N].
    """

    def __init__(
        self,
        model: Model,
        covariance: np.ndarray,
        force_uncertainty: float,
        surface: Surface = NO_SURFACE,
    ) -> None:
        self._model = model
        self._covariance = np.ascontiguousarray(covariance, dtype=float)
        self._whitening = np.linalg.inv(np.linalg.cholesky(self._covariance))
        self.noise = np.sqrt(np.diag(self._covariance))
        self._limit = force_uncertainty
        self._first = model.nv - len(model.joint_names)
        self._links = model.bodies - self._first
        self._pushes = _push_places(model, self._first)
        self._obstacles = _collision_places(model, self._first, surface)
        self._has_geometry = surface.body.size > 0
        self._sums = np.empty(2 + 3 * model.nv)
        self._all, self._none = np.ones(model.nv), np.zeros(model.nv)
        self._result = np.empty((4, 3))
        self._gain = np.zeros((3, model.nv))
        self._known = False
        self.begin()

    def begin(self, q: np.ndarray | None = None, v: np.ndarray | None = None) -> None:
        """Forget the contact looked at so far: another contact begins.

        Args:
            q: joint positions where it begins, (nq,) [rad or m].
            v: joint velocities before it, (nv,) [rad/s or m/s]. Without ``q`` and ``v`` the contact
                counts as a push.
        """
        places = self._pushes
        directions = np.zeros((places.body.size, 3))
        if self._has_geometry and q is not None and v is not None:
            facing, toward = self._obstacles.facing(self._model, q, v, self._links)
            places = places.joined(facing)
            directions = np.concatenate([directions, toward])
        k, nv = places.body.size, self._model.nv
        self._places, self._directions = places, directions
        self._jacobians = np.zeros((k, nv, 6))
        self._at = np.empty((k, 3))
        self._information, self._projected = np.empty((k, 6, 6)), np.empty((k, 6))
        self._evidence = np.empty((k, SIZES.size))
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
        *,
        hard: bool = False,
    ) -> Isolation:
        """Name the link from all looks at this contact, and estimate the force of this moment.

        Looks should lie a time constant of the observer apart, since they count as independent.

        Args:
            q: joint positions, (nq,) [rad or m].
            residual: r, (nv,) [N·m or N].
            risen: part of a constant torque that each residual shows by now, (nv,); all of it
                where not given. Residuals of unlike gains rise in another pattern than they stay.
            doubt: standard deviation of what friction that changes its sign, speed and
                acceleration may add to each residual now, (nv,) [N·m or N]; nothing where not
                given.
            hard: whether the contact has reached the level of a collision. The looks then count
                by their residuals in standard deviations with ``doubt`` included, so that the
                jolt of the arm counts less than the force that follows.
        """
        risen = self._all if risen is None else risen
        doubt = self._none if doubt is None else doubt
        q = np.ascontiguousarray(q, dtype=float)
        places, shared = self._places, (self._jacobians, self._sums)
        whitening = self._whitening
        if hard:
            whitening = np.diag(1.0 / np.hypot(self.noise, doubt))
        arguments = (places.body, places.point, residual, risen, doubt, whitening, self._at)
        take_in(self._model.packed, q, *arguments, *shared)
        factor = noise_factor(self._covariance, self._sums)
        fit = (factor, SIZES, places.spread, self._directions, self._information, self._projected)
        square = weigh(*shared, *fit, self._evidence)
        weights, probability = self._posterior(COLLISION if hard else CONTACT)
        order = np.argsort(-probability, kind="stable")
        best = int(order[0])
        weights[places.body != best + self._first] = 0.0
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

    def _posterior(self, obstacle: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of places and sizes, (k, sizes), and of links, (links,).

        Args:
            obstacle: probability of a collision beforehand.
        """
        places, pushes = self._places, self._pushes.body.size
        prior = places.weight.copy()
        prior[:pushes] *= 1.0 - obstacle
        prior[pushes:] *= obstacle
        weights = prior[:, None] * np.exp(self._evidence - self._evidence.max())
        weights /= weights.sum()
        row = places.body - self._first
        return weights, np.bincount(row, weights.sum(axis=1), minlength=self._links)

    def _root(self, q: np.ndarray) -> np.ndarray:
        """Of the axes that places are told in, (3,) world axes [m]."""
        return q[:3] if self._model.floating_base else np.zeros(3)


@dataclass(frozen=True, eq=False)
class _Places:
    """Places where bodies may be touched."""

    body: np.ndarray
    """(k,) row of the body."""
    point: np.ndarray
    """(k, 3) in its frame [m]."""
    normal: np.ndarray
    """(k, 3) outward normal in its frame; zero where it is not known."""
    spread: np.ndarray
    """(k,) standard deviation of the contact about the place [m]."""
    weight: np.ndarray
    """(k,) probability beforehand; of obstacles the area of the part."""

    def joined(self, other: _Places) -> _Places:
        """Return these places and others after them."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return _Places(*(np.concatenate(pair) for pair in pairs))

    def facing(
        self, model: Model, q: np.ndarray, v: np.ndarray, links: int
    ) -> tuple[_Places, np.ndarray]:
        """Return the places that run into an obstacle, and the directions of its force.

        Args:
            model: the robot.
            q, v: joint positions and velocities before the contact, (nq,) and (nv,).
            links: number of links that share the probability of one.

        Returns:
            The m places that move outward, with their probabilities, in sum ``links``; the
            directions, (m, 3) world axes.
        """
        k = self.body.size
        directions, speeds = np.empty((k, 3)), np.empty(k)
        q, v = (np.ascontiguousarray(each, dtype=float) for each in (q, v))
        places = (self.body, self.point, self.normal)
        approach(model.packed, q, v, *places, directions, speeds)
        moving = speeds > 0.0
        swept = (self.weight * speeds)[moving]
        body = self.body[moving]
        of_body = np.bincount(body, swept)
        # Each link that moves outward somewhere is as likely as the others.
        weight = swept / of_body[body] * (links / max(int((of_body > 0.0).sum()), 1))
        point, normal, spread = self.point[moving], self.normal[moving], self.spread[moving]
        return _Places(body, point, normal, spread, weight), directions[moving]


def _push_places(model: Model, first: int) -> _Places:
    """Return where the bodies from row ``first`` on may be pushed."""
    found = []
    for body in range(first, model.bodies):
        ideal, middle = _along(model, body)
        count = [len(ideal), len(middle)]
        found.append(
            _Places(
                np.full(sum(count), body),
                np.concatenate([ideal, middle]),
                np.zeros((sum(count), 3)),
                np.repeat([0.0, SPREAD], count),
                np.repeat([IDEAL / count[0], (1.0 - IDEAL) / count[1]], count),
            )
        )
    return reduce(_Places.joined, found)


def _collision_places(model: Model, first: int, surface: Surface) -> _Places:
    """Return where the bodies from row ``first`` on may run into an obstacle."""
    count = surface.body.size
    spread = np.full(count, PATCH)
    places = _Places(surface.body, surface.point, surface.normal, spread, surface.area)
    for body in sorted(set(range(first, model.bodies)) - set(surface.body)):
        middle = _along(model, body)[1]
        k = len(middle)
        plain = (np.zeros((k, 3)), np.full(k, SPREAD), np.ones(k))
        places = places.joined(_Places(np.full(k, body), middle, *plain))
    return places


def _along(model: Model, body: int) -> tuple[np.ndarray, np.ndarray]:
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
