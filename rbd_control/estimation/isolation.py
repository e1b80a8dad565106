"""Contact isolation: estimate the touched link, the contact point and the force from the residual.

A force ``F`` at a point of a link causes the residual ``r = Jᵀ [m; F]``, with J the Jacobian of a
place on the link and ``m`` the moment of F about that place. The residual of joints beyond the link
is zero. Two kinds of contact are distinguished:

- A **push** acts in any direction. Each link has places along its middle: its origin, its centre of
  mass, the origins of links fixed to it, and the lines to the links it carries. The contact point
  is distributed about a place with a standard deviation of some centimetres, or lies exactly at the
  origin or the centre of mass (idealised pushes). Places on the surface of known collision geometry
  have half of the prior probability.
- A **collision** is a contact of the moving arm with an obstacle. Each link has places on the
  surface of its collision geometry. An obstacle can touch only places that move outward; its force
  points into the surface and against the motion. The prior probability of a place is proportional
  to its area times its outward speed. For a link without known geometry, the places along its
  middle are used, and the direction of the force depends on the motion only. If no geometry of the
  arm is known, every contact counts as a push.

The prior of the force covers several decades of its size. Bayes' rule then gives the probability of
each place, and of each link, in closed form because all distributions are normal. A link that
explains the residual only by a coincidence, such as a force without torque about its own joint, is
less probable than a link that explains it with any force.

While a contact lasts, its residual is evaluated repeatedly. The evaluations are averaged with
weights proportional to the squared residual, so the peak has the largest weight. Averaging reduces
the noise, but not the model error.

An obstacle may touch a second link while it still touches the first, or slide onto it. Later
residuals then fit the second link, and the average would discard the first. The probability of each
link in a collision is therefore averaged as well, over all evaluations, with weights proportional
to the residual: it is the share of the impulse.

A hand may change the direction of its force, or move to another link, without letting go. In the
average, opposite forces would cancel, and the first link would count for as long as it was pushed.
Therefore the average fades, with a time constant of half a second in a push and of one second in a
collision, and a residual of another direction does not enter that of a push. If the residual keeps
another direction, the average begins anew with it.

Joint torques do not determine a force component that hardly loads any joint. If the uncertainty of
the estimated force is too large, the force is reported as not observable, never as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.isolation_kernel import (
    approach,
    expected,
    fade,
    noise_factor,
    take_in,
    weigh,
)
from rbd_control.robot.shapes import NO_SURFACE, Surface

SPACING = 0.06
"""Distance between neighbouring places along a link [m]."""
MOST_PLACES = 50
"""Maximum number of places from a link's origin to one end; it limits very long links only."""
SPREAD = 0.035
"""Standard deviation of the contact point about a place along a link [m]: the radius of an arm."""
IDEAL = 0.07
"""Prior probability that a push acts exactly at an origin or a centre of mass."""
SKIN = 0.5
"""Prior probability that a push on a link of known geometry acts on the surface of this geometry,
instead of near the middle of the link."""
PATCH = 0.02
"""Standard deviation of the contact point about the part of the surface that a place represents
[m]."""
COLLISION, CONTACT = 0.95, 0.5
"""Prior probability that a contact of each level is with an obstacle and not a push."""
SIZES = np.array([2.0, 6.0, 18.0, 54.0, 162.0, 486.0])
"""Standard deviations of the force along each axis [N], with equal prior probabilities."""
NAMED, NAMED_HARD = 0.95, 0.9
"""Total probability that the named candidate links must reach, in a push and in a collision, whose
probabilities are averages."""
KNOWN = 0.4
"""Largest standard deviation of an observable force, as a fraction of the force."""
PLACED = 0.06
"""Largest standard deviation of an observable contact point [m]."""
NOISE = (1e-6, 1e9)
"""Bounds of the standard deviation of a residual, so that its square can be inverted [N·m or N]."""
SIGMAS = 10.0
"""Assumed ratio of a detection threshold to the standard deviation of the residual.

Thresholds have a margin for other motions than the recorded ones.
"""

KEPT, KEPT_HARD = 0.96, 0.98
"""Fraction of the weight of earlier residuals that each call of :meth:`LinkIsolation.look` keeps,
in a push and in a collision; the detector calls it every 20 ms
(:data:`~rbd_control.estimation.decision.LOOK_PERIOD`), or every sample if samples are rarer."""
ALIKE = 0.5
"""Cosine of the angle between a residual and the average, both in standard deviations of the noise,
below which the residual has another direction."""
LARGE = 0.1
"""Size of a residual, as a fraction of the size of the average, above which its direction is
compared with the average.

The fraction is small because a hand may push much more weakly after it has turned or moved.
"""
TURNED, TURNED_HARD = 6, 25
"""Number of consecutive residuals of another direction with which the average begins anew: of a
push, and of a collision, which shakes the arm for some tenths of a second."""


@dataclass(frozen=True)
class Isolation:
    """Link, contact point and force that the residuals of a contact indicate."""

    link: str
    """The most probable link."""
    candidates: tuple[str, ...]
    """The most probable links, ``link`` first; the contact is on one of them with a probability of
    at least :data:`NAMED`, in a collision :data:`NAMED_HARD`."""
    confidence: float
    """Probability of ``link``, in [0, 1]; NaN if the residual is beyond the range of any arm."""
    force: np.ndarray | None
    """Force that the environment applies, (3,) world axes [N]; None if it is not observable."""
    point: np.ndarray | None
    """Point on the line of action of the force that is nearest to the middle of the link (of a
    collision: to its touched surface), (3,) world axes [m]; None if it is not observable."""
    misfit: float
    """Root mean square of the unexplained residual, in standard deviations; NaN if the residual is
    beyond the range of any arm."""


def found(isolation: Isolation | None) -> dict[str, Any]:
    """Return the fields of an isolation that detections and events share, by name.

    Returns:
        ``link``, ``candidates``, ``confidence`` and ``point``, as keyword arguments for
        :class:`~rbd_control.estimation.Detection` and
        :class:`~rbd_control.estimation.ContactEvent`; without an isolation only an empty ``link``.
    """
    if isolation is None:
        return {"link": ""}
    names = ("link", "candidates", "confidence", "point")
    return {name: getattr(isolation, name) for name in names}


def residual_noise(covariance: np.ndarray | None, threshold: np.ndarray) -> np.ndarray:
    """Return the covariance of the residual without contact, (nv, nv) [(N·m)² or N²].

    Without a measured covariance the joints are uncorrelated, and the standard deviation of each is
    its threshold divided by :data:`SIGMAS`, within :data:`NOISE`.

    Args:
        covariance: measured covariance, (nv, nv); None if it was not measured.
        threshold: detection threshold of each joint, (nv,) [N·m or N].
    """
    if covariance is not None:
        return covariance
    return np.diag(np.clip(threshold / SIGMAS, *NOISE) ** 2)


class LinkIsolation:
    """Estimates link, point and force of the contacts of one arm, one contact after the other.

    Call :meth:`begin` at the onset of a contact, then :meth:`look` for each residual of it.

    Args:
        model: the robot.
        covariance: of the residual without contact, (nv, nv) [(N·m)² or N²].
        force_uncertainty: largest standard deviation of an observable force [N].
        surface: points on the collision geometry of the links; without points every contact counts
            as a push.

    Attributes:
        noise: standard deviation of each residual without contact, (nv,) [N·m or N].
        average: number of averages begun so far, which identifies the present one.
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
        self._pushes = _push_places(model, self._first, surface)
        self._obstacles = _collision_places(model, self._first, surface)
        self._has_geometry = surface.body.size > 0
        self._sums = np.empty(2 + 3 * model.nv)
        self._touched = np.empty(self._links)
        self._all, self._none = np.ones(model.nv), np.zeros(model.nv)
        self._result = np.empty((4, 3))
        self._gain = np.zeros((3, model.nv))
        self._known = False
        self.average = 0
        self.begin()

    def begin(self, q: np.ndarray | None = None, v: np.ndarray | None = None) -> None:
        """Begin a new contact; discard the residuals of the previous one.

        Args:
            q: joint positions at its onset, (nq,) [rad or m].
            v: joint velocities before its onset, (nv,) [rad/s or m/s]. Without ``q`` and ``v`` the
                contact counts as a push.
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
        self._touched[:] = 0.0
        self._turned = 0
        self._known = False
        self.average += 1

    def isolate(
        self,
        q: np.ndarray,
        residual: np.ndarray,
        risen: np.ndarray | None = None,
        doubt: np.ndarray | None = None,
    ) -> Isolation:
        """Isolate a push from one sample alone; arguments and result as for :meth:`look`.

        The residuals of earlier calls are discarded.
        """
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
        """Add a residual of the present contact, and estimate link, point and force.

        In a push, a residual of another direction (:data:`ALIKE`) than the average of the contact's
        residuals is not added to this average; in a collision (``hard``) it is. After ``TURNED``
        such residuals in a row (``TURNED_HARD`` in a collision) the average begins anew with the
        last of them, as the average of a push.

        Successive calls should be at least one time constant of the observer apart, because their
        residuals count as independent.

        Args:
            q: joint positions, (nq,) [rad or m].
            residual: r, (nv,) [N·m or N].
            risen: present step response of each residual, (nv,); 1 by default. With different
                observer gains, the ratios between the residuals of a rising contact differ from
                their final ratios.
            doubt: standard deviation that reversing friction, speed and acceleration add to each
                residual at present, (nv,) [N·m or N]; zero by default.
            hard: whether the contact has reached the level of a collision. The weight of a residual
                is then its squared size in standard deviations that include ``doubt``, so that the
                jolt of the arm has less weight than the force after it.

        Returns:
            The link, the candidates and the point from the average, and the force from the present
            residual. Point and force are None if they are not observable.

        Raises:
            numpy.linalg.LinAlgError: for a residual beyond the range of any arm.
        """
        risen = self._all if risen is None else risen
        doubt = self._none if doubt is None else doubt
        q = np.ascontiguousarray(q, dtype=float)
        self._turned = self._turned + 1 if self._is_turned(residual) else 0
        if self._turned >= (TURNED_HARD if hard else TURNED):
            self.begin()  # as a push: the motion before the onset did not cause this force
        places, shared = self._places, (self._jacobians, self._sums)
        whitening = self._whitening
        if hard:
            whitening = np.diag(1.0 / np.hypot(self.noise, doubt))
        if hard or not self._turned:
            fade(*shared, KEPT_HARD if hard else KEPT)
            arguments = (places.body, places.point, residual, risen, doubt, whitening, self._at)
            take_in(self._model.packed, q, *arguments, *shared)
        factor = noise_factor(self._covariance, self._sums)
        fit = (factor, SIZES, places.spread, self._directions, self._information, self._projected)
        square = weigh(*shared, *fit, self._evidence)
        logarithm = self._log_posterior(COLLISION if hard else CONTACT)
        weights = np.exp(logarithm - logarithm.max())
        row = places.body - self._first
        probability = np.bincount(row, weights.sum(axis=1), minlength=self._links)
        probability = probability / probability.sum()
        self._touched *= KEPT_HARD if hard else KEPT
        self._touched += (np.linalg.norm(whitening @ residual) + 1e-12) * probability
        if hard:
            probability = self._touched / self._touched.sum()
        order = np.argsort(-probability, kind="stable")
        best = int(order[0])
        own = row == best  # the link of the longest contact may be improbable at present
        weights = np.exp(np.where(own[:, None], logarithm - logarithm[own].max(), -np.inf))
        weights /= weights.sum()
        misfit = expected(*shared, *fit, self._at, weights, self._result, self._gain)
        mean = self._result[0]
        deviation = np.sqrt(self._result[2, 0])
        self._known = bool(deviation < min(self._limit, KNOWN * np.linalg.norm(mean)))
        placed = self._known and self._result[3, 0] < PLACED**2
        links = self._model.body_links
        named = (
            int(np.searchsorted(np.cumsum(probability[order]), NAMED_HARD if hard else NAMED)) + 1
        )
        return Isolation(
            link=links[best],
            candidates=tuple(links[i] for i in order[:named]),
            confidence=min(float(probability[best]), 1.0),
            force=self.force(residual),
            point=self._result[1] + self._root(q) if placed else None,
            misfit=float(np.sqrt(max(square + misfit, 0.0) / residual.size)),
        )

    @property
    def is_turned(self) -> bool:
        """Whether the last residual had another direction (:data:`ALIKE`) than the average."""
        return self._turned > 0

    def force(self, residual: np.ndarray) -> np.ndarray | None:
        """Return the force for another residual at the link and place of the last :meth:`look`.

        Args:
            residual: r, (nv,) [N·m or N].

        Returns:
            (3,) world axes [N]; None if it is not observable.
        """
        return self._gain @ residual if self._known else None

    def _is_turned(self, residual: np.ndarray) -> bool:
        """Return whether a residual (nv,) has another direction than the average of the contact."""
        if self._sums[0] == 0.0:
            return False
        mean = self._whitening @ self._sums[2 : 2 + residual.size] / self._sums[0]
        present = self._whitening @ residual
        sizes = np.linalg.norm(mean), np.linalg.norm(present)
        is_large = sizes[1] > LARGE * sizes[0]
        return bool(is_large and mean @ present < ALIKE * sizes[0] * sizes[1])

    def _log_posterior(self, obstacle: float) -> np.ndarray:
        """Return the logarithm of the unnormalised probability of places and sizes, (k, sizes).

        Args:
            obstacle: prior probability of a collision.
        """
        prior = self._places.weight.copy()
        pushes = self._pushes.body.size
        prior[:pushes] *= 1.0 - obstacle
        prior[pushes:] *= obstacle
        return np.asarray(np.log(prior)[:, None] + self._evidence)

    def _root(self, q: np.ndarray) -> np.ndarray:
        """Return the origin to which the coordinates of places refer, (3,) world axes [m]."""
        return q[:3] if self._model.floating_base else np.zeros(3)


@dataclass(frozen=True, eq=False)
class _Places:
    """Places where bodies may be touched."""

    body: np.ndarray
    """(k,) row of the body."""
    point: np.ndarray
    """(k, 3) position in the frame of the body [m]."""
    normal: np.ndarray
    """(k, 3) outward normal in the frame of the body; zero if it is unknown."""
    spread: np.ndarray
    """(k,) standard deviation of the contact point about the place [m]."""
    weight: np.ndarray
    """(k,) prior probability; before :meth:`facing`, the area of the place's part of a surface."""

    def joined(self, other: _Places) -> _Places:
        """Return these places followed by the places of ``other``."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return _Places(*(np.concatenate(pair) for pair in pairs))

    def facing(
        self, model: Model, q: np.ndarray, v: np.ndarray, links: int
    ) -> tuple[_Places, np.ndarray]:
        """Return the places that can run into an obstacle, and the expected force directions.

        Args:
            model: the robot.
            q, v: joint positions and velocities before the contact, (nq,) and (nv,).
            links: number of links, to which the prior probabilities of all places add up.

        Returns:
            The m places that move outward, whose prior probabilities add up to ``links``, and the
            expected directions of the force, (m, 3) world axes.
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
        # All links with a place that moves outward have the same prior probability.
        weight = swept / of_body[body] * (links / max(int((of_body > 0.0).sum()), 1))
        point, normal, spread = self.point[moving], self.normal[moving], self.spread[moving]
        return _Places(body, point, normal, spread, weight), directions[moving]


def _push_places(model: Model, first: int, surface: Surface) -> _Places:
    """Return the places where the bodies from row ``first`` on may be pushed."""
    found = []
    skin = _surface_places(surface)
    for body in range(first, model.bodies):
        ideal, middle = _along(model, body)
        own = skin.body == body
        share = skin.weight[own]
        on_surface = SKIN if own.any() else 0.0
        count = [len(ideal), len(middle), len(share)]
        inside = (1.0 - on_surface) * np.array([IDEAL / count[0], (1.0 - IDEAL) / count[1]])
        found.append(
            _Places(
                np.full(sum(count), body),
                np.concatenate([ideal, middle, skin.point[own]]),
                np.zeros((sum(count), 3)),
                np.concatenate([np.repeat([0.0, SPREAD], count[:2]), skin.spread[own]]),
                np.concatenate([np.repeat(inside, count[:2]), on_surface * share / share.sum()]),
            )
        )
    return reduce(_Places.joined, found)


def _collision_places(model: Model, first: int, surface: Surface) -> _Places:
    """Return the places where the bodies from row ``first`` on may run into an obstacle."""
    places = _surface_places(surface)
    for body in sorted(set(range(first, model.bodies)) - set(surface.body)):
        middle = _along(model, body)[1]
        k = len(middle)
        plain = (np.zeros((k, 3)), np.full(k, SPREAD), np.ones(k))
        places = places.joined(_Places(np.full(k, body), middle, *plain))
    return places


def _surface_places(surface: Surface) -> _Places:
    """Return the points of a surface as places; each spreads as far as a disc of its area."""
    spread = np.sqrt(PATCH**2 + surface.area / (4.0 * np.pi))
    return _Places(surface.body, surface.point, surface.normal, spread, surface.area)


def _along(model: Model, body: int) -> tuple[np.ndarray, np.ndarray]:
    """Return idealised places, and places along the middle, of a body.

    Both are (k, 3) in the frame of the body [m]. A push acts exactly at an idealised place, or is
    distributed about a place along the middle.
    """
    arrays = model.arrays
    fixed = [link for link, row in model.link_body.items() if row == body]
    mass = arrays.mass[body]
    center = arrays.first_moment[body] / mass if mass > 0.0 else np.zeros(3)
    carried = np.flatnonzero(arrays.parent[: model.bodies] == body)
    ends = [model.link_placement[link][:3, 3] for link in fixed]
    return _places_of_body(np.array([center, *ends, *arrays.translation[carried]]).tobytes())


@lru_cache(maxsize=1000)
def _places_of_body(points: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of :func:`_along` for the center of mass and other points of a body.

    They are stored: a change of parameters of a running detector must not take many milliseconds.

    Args:
        points: bytes of (n, 3) numbers [m], the center of mass first.
    """
    ends = np.frombuffer(points).reshape(-1, 3)
    ideal = np.unique(np.round([np.zeros(3), ends[0]], 6), axis=0)
    middle = [np.zeros(3)]
    for end in (np.zeros(3), *ends):
        steps = min(int(np.ceil(np.linalg.norm(end) / SPACING)), MOST_PLACES)
        for place in np.linspace(np.zeros(3), end, steps + 1)[1:]:
            if min(np.linalg.norm(place - other) for other in middle) > 0.5 * SPACING:
                middle.append(place)
    along = np.array(middle)
    ideal.flags.writeable = along.flags.writeable = False
    return ideal, along
