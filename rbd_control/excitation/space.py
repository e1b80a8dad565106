"""The space that an arm needs: capsules around its links, a box, a floor, and the arm itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_placement
from rbd_control.errors import InputError
from rbd_control.robot import Robot
from rbd_control.robot.shapes import assumed_radius, link_corners, mesh_files
from rbd_control.wording import listed

Array = NDArray[np.float64]

CLEARANCE = 0.02
"""Smallest distance of two links that are not neighbours, and of a link and the floor [m]."""
POSTURES = 300
"""Number of random postures in which links are compared."""
ALWAYS = 0.5
"""Share of random postures from which two capsules overlap because they are too coarse."""
TOUCH = 0.001
"""Distance that is left where :data:`CLEARANCE` is impossible [m]."""
LEVEL = 0.05
"""Largest change of a link's height over all postures that counts as none [m]: it turns about a
vertical axis, as the first link of a standing arm, and no motion changes its distance to the
floor."""
WORLD = -1
"""Number of the links that do not move, as a body."""


@dataclass(frozen=True, eq=False)
class Capsules:
    """Capsules around the bodies of an arm, k of them.

    Attributes:
        model: the arm.
        body: row of the moving body of each capsule, (k,); -1 for the world.
        ends: the two ends of the axis in the frame of the body, (k, 2, 3) [m].
        radius: (k,) [m].
        assumed: names of the links without known shape, whose capsule is an assumption.
    """

    model: Model
    body: NDArray[np.intp]
    ends: Array
    radius: Array
    assumed: tuple[str, ...]

    def placed(self, q: Array) -> Array:
        """Return the ends of the axes in the world frame, (m, k, 2, 3) [m], for ``q`` (m, nq)."""
        placements = [frame_placement(self.model, q, link) for link in self.model.body_links]
        out = np.empty((len(q), *self.ends.shape))
        for k, body in enumerate(self.body):
            if body < 0:
                out[:, k] = self.ends[k]
            else:
                where = placements[body]
                out[:, k] = self.ends[k] @ where[:, :3, :3].swapaxes(1, 2) + where[:, None, :3, 3]
        return out


def capsules_of(robot: Robot) -> Capsules:
    """Return one capsule around the shapes of each moving body, and one around the fixed links.

    A moving body without shapes gets a capsule from its joint to the next joints, with the radius
    of :func:`~rbd_control.robot.shapes.assumed_radius`.
    """
    model = robot.model
    corners: dict[int, list[Array]] = {}
    for link, points in link_corners(robot.urdf, mesh_files(robot.parameters)).items():
        placement = model.link_placement.get(link)
        if placement is not None:
            placed = points @ placement[:3, :3].T + placement[:3, 3]
            corners.setdefault(model.link_body.get(link, WORLD), []).append(placed)
    bodies, ends, radii, assumed = [], [], [], []
    for body, link in enumerate(model.body_links):
        if body in corners:
            continue
        assumed.append(link)
        children = np.flatnonzero(model.arrays.parent[: model.bodies] == body)
        tips = [model.arrays.translation[child] for child in children]
        for tip in tips or [np.zeros(3)]:
            bodies.append(body)
            ends.append(np.array([np.zeros(3), tip]))
            radii.append(assumed_radius(float(np.linalg.norm(tip))))
    for body, parts in sorted(corners.items()):
        axis, radius = _around(np.vstack(parts))
        bodies.append(body)
        ends.append(axis)
        radii.append(radius)
    return Capsules(
        model, np.array(bodies, dtype=np.intp), np.array(ends), np.array(radii), tuple(assumed)
    )


def _around(points: Array) -> tuple[Array, float]:
    """Return the axis, (2, 3), and the radius of a capsule around points (k, 3) [m].

    Of the capsules along the three principal axes it has the smallest volume.
    """
    centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
    _, _, directions = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    best: tuple[float, Array, float] | None = None
    for direction in directions:
        along = (points - centre) @ direction
        aside = (points - centre) - along[:, None] * direction
        radius = float(np.linalg.norm(aside, axis=1).max())
        # Each point within the radius of the axis needs less length near the axis.
        spare = np.sqrt(np.maximum(radius**2 - np.square(aside).sum(axis=1), 0.0))
        low, high = float((along + spare).min()), float((along - spare).max())
        if low > high:  # a sphere contains all points
            low = high = 0.5 * (low + high)
        volume = np.pi * radius**2 * (high - low + 4.0 / 3.0 * radius)
        if best is None or volume < best[0]:
            axis = centre + np.array([[low], [high]]) * direction
            best = (volume, axis, radius)
    assert best is not None
    return best[1], best[2]


@dataclass(frozen=True, eq=False)
class Space:
    """The space within which an arm may move.

    Attributes:
        capsules: the links.
        lower, upper: corners of the box, (3,) [m]; infinite without a box.
        floor: height of the floor [m]; minus infinity without a floor.
        above_floor: capsules that must be above the floor.
        needed: least height of each of these above the floor [m].
        pairs: pairs of capsules that must not touch, (p, 2).
        notes: what is not checked, for the user.
    """

    capsules: Capsules
    lower: Array
    upper: Array
    floor: float
    above_floor: NDArray[np.intp]
    needed: Array
    pairs: NDArray[np.intp]
    notes: tuple[str, ...]

    def clearance(self, q: Array, *, low_links: bool = True) -> Array:
        """Return the smallest distance to the bounds in each posture, negative outside, (m,) [m].

        The bounds are the box, the floor and other links; the distance to floor and links is less
        :data:`CLEARANCE`.

        Args:
            q: postures, (m, nq) [rad or m].
            low_links: whether to include links that can never be higher than :data:`CLEARANCE`,
                whose distance does not tell one posture from another.
        """
        ends, radius = self.capsules.placed(q), self.capsules.radius
        found = np.full(len(q), np.inf)
        if np.isfinite(self.lower).any() or np.isfinite(self.upper).any():
            moving = self.capsules.body >= 0
            low = (ends - self.lower).min(axis=(2, 3)) - radius
            high = (self.upper - ends).min(axis=(2, 3)) - radius
            found = np.minimum(low, high)[:, moving].min(axis=1)
        if np.isfinite(self.floor) and self.above_floor.size:
            height = ends[..., 2].min(axis=2) - radius - self.floor
            above = height[:, self.above_floor] - self.needed
            if not low_links:
                above = above[:, self.needed >= CLEARANCE]
            found = np.minimum(found, above.min(axis=1, initial=np.inf))
        if len(self.pairs):
            found = np.minimum(found, self._apart(ends).min(axis=1) - CLEARANCE)
        return found

    def _apart(self, ends: Array) -> Array:
        """Return the distance of each pair, (m, p) [m]."""
        one, other = self.pairs.T
        radius = self.capsules.radius[one] + self.capsules.radius[other]
        return segment_distance(ends[:, one], ends[:, other]) - radius

    def swept(self, q: Array) -> tuple[Array, Array]:
        """Return the corners of the box around all links in the postures ``q``, (3,) each [m]."""
        moving = self.capsules.body >= 0
        ends = self.capsules.placed(q)[:, moving]
        radius = self.capsules.radius[moving][:, None, None]
        return (ends - radius).min(axis=(0, 1, 2)), (ends + radius).max(axis=(0, 1, 2))


def space_of(
    robot: Robot, box: Sequence[float] | None, floor: float | None, low: Array, high: Array
) -> Space:
    """Return the space within which an arm may move.

    Neighbours in the chain are not compared. Two links whose capsules overlap in half of all
    postures are not compared either: their capsules are too coarse to tell. A link that is at the
    height of the floor in all postures (:data:`LEVEL`) is not compared with the floor.

    Args:
        robot: the arm.
        box: x, x, y, y, z, z of two opposite corners in the frame of the base [m]; or None.
        floor: height of the floor [m]; by default that of the base, if the arm stands on it.
        low, high: range of the joints, (nv,) [rad or m].

    Raises:
        InputError: for a box without volume, or a base that is outside of it.
    """
    capsules = capsules_of(robot)
    model = robot.model
    lower, upper = np.full(3, -np.inf), np.full(3, np.inf)
    if box is not None:
        lower, upper = np.array(box[0::2], dtype=float), np.array(box[1::2], dtype=float)
        for axis, a, b in zip("xyz", lower, upper, strict=True):
            if not a < b:
                raise InputError(
                    f"--box: {axis} is from {a:g} to {b:g} m; give the lower end first"
                )
    standing = model.gravity[2] < 0.0 and abs(model.gravity[2]) > 0.9 * np.linalg.norm(
        model.gravity
    )
    height = floor if floor is not None else (0.0 if standing else -np.inf)
    random = np.random.default_rng(0)
    ends = capsules.placed(random.uniform(low, high, (POSTURES, low.size)))
    notes = []
    lowest = ends[..., 2].min(axis=2) - capsules.radius
    moving = np.flatnonzero(capsules.body >= 0)
    level = moving[np.ptp(lowest[:, moving], axis=0) < LEVEL]
    level = level[(lowest[:, level] < height + CLEARANCE).any(axis=0)]
    if level.size:
        notes.append(
            f"the floor is not compared with {_links(model, capsules.body[level])}, whose height "
            "no motion changes"
        )
    parent = model.arrays.parent
    pairs = np.array(
        [
            (i, j)
            for i in range(len(capsules.body))
            for j in range(i)
            if not _are_neighbours(int(capsules.body[i]), int(capsules.body[j]), parent)
        ],
        dtype=np.intp,
    ).reshape(-1, 2)
    if len(pairs):
        apart = segment_distance(ends[:, pairs[:, 0]], ends[:, pairs[:, 1]])
        overlap = apart < capsules.radius[pairs].sum(axis=1) + CLEARANCE
        often = overlap.mean(axis=0) > ALWAYS
        for one, other in capsules.body[pairs[often]]:
            notes.append(
                f"{_links(model, [one])} and {_links(model, [other])} are not compared: a capsule "
                "is too coarse for them"
            )
        pairs = pairs[~often]
    if capsules.assumed:
        notes.insert(
            0,
            f"no shapes are known of {listed(capsules.assumed)}: capsules between the joints are "
            "assumed, so that distances to floor, box and other links are estimates",
        )
    above = np.setdiff1d(moving, level)
    # A link that hangs on a low shoulder never has more than the distance of the shoulder.
    most = lowest[:, above].max(axis=0) - height - TOUCH
    needed = np.where(most > 0.0, np.minimum(most, CLEARANCE), CLEARANCE)
    return Space(capsules, lower, upper, height, above, needed, pairs, tuple(notes))


def _links(model: Model, bodies: Sequence[int] | NDArray[np.intp]) -> str:
    return listed("the base" if body < 0 else model.body_links[body] for body in bodies)


def _are_neighbours(one: int, other: int, parent: NDArray[np.int64]) -> bool:
    """Return whether two bodies are the same, or one carries the other."""
    return (
        one == other
        or bool(one >= 0 and parent[one] == other)
        or bool(other >= 0 and parent[other] == one)
    )


def segment_distance(one: Array, other: Array) -> Array:
    """Return the distance between segments, (...) [m]; the ends of each are (..., 2, 3).

    Source: Ericson, *Real-Time Collision Detection*, 2005, section 5.1.9.
    """
    d1, d2 = one[..., 1, :] - one[..., 0, :], other[..., 1, :] - other[..., 0, :]
    r = one[..., 0, :] - other[..., 0, :]
    a, e, f, c, b = (
        np.einsum("...i,...i", x, y) for x, y in ((d1, d1), (d2, d2), (d2, r), (d1, r), (d1, d2))
    )
    tiny = 1e-12
    denominator = a * e - b * b
    s = np.where(denominator > tiny, (b * f - c * e) / np.maximum(denominator, tiny), 0.0)
    s = np.clip(s, 0.0, 1.0)
    t = np.where(e > tiny, (b * s + f) / np.maximum(e, tiny), 0.0)
    t = np.clip(t, 0.0, 1.0)
    s = np.where(a > tiny, np.clip((b * t - c) / np.maximum(a, tiny), 0.0, 1.0), 0.0)
    gap = r + s[..., None] * d1 - t[..., None] * d2
    return np.asarray(np.linalg.norm(gap, axis=-1))
