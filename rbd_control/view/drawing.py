"""Drawing of one arm in the 3D scene: solids that move and change colour, arrow of the force."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from rbd_control.view.scene import Colour, Scene, Shape
from rbd_control.view.state import ArmState, Touch

Array = NDArray[np.float64]

TOUCHED: dict[str, Colour] = {"contact": (230, 73, 28), "collision": (200, 20, 90)}
"""Colour of the touched link for each verdict, as red, green and blue from 0 to 255."""

CANDIDATE: Colour = (250, 176, 5)
"""Colour of other candidate links, mixed with the link's own colour.

Its share is the probability of the link."""

ARROW: Colour = (201, 42, 42)

ARROW_SCALE = 0.02
"""Length of the force arrow per newton [m/N], as in RViz."""

ARROW_LENGTH = (0.06, 0.8)
"""Minimum and maximum length of the force arrow [m]."""


class ArmDrawing:
    """Draws one arm; at first each joint is in the middle of its range, or at 0 without limits.

    Colours are sent to the browsers only when they change.

    Args:
        viser: scene of the viser server.
        root: path of the arm in the viser scene, such as ``/arm_0``.
        scene: geometry of the arm.
        position: position of the arm's root link in the viser scene, (3,) [m].

    Attributes:
        scene: geometry of the arm.
        bodies: viser frame of each moving body.
        solids: each shape of the arm with its viser object.
        arrow: viser object of the contact force; invisible without force.
        label: viser object of the text at the tip of the arrow, the magnitude [N].
    """

    def __init__(self, viser: Any, root: str, scene: Scene, position: tuple[float, ...]) -> None:
        self.scene = scene
        self._viser, self._root = viser, root
        viser.add_frame(root, show_axes=False, position=position)
        self.bodies = [
            viser.add_frame(f"{root}/body_{body}", show_axes=False)
            for body in range(scene.model.bodies)
        ]
        self.solids: list[tuple[Shape, Any]] = [
            (shape, self._add(number, shape)) for number, shape in enumerate(scene.shapes)
        ]
        self.arrow = viser.add_arrows(
            f"{root}/force",
            np.zeros((1, 2, 3)),
            ARROW,
            shaft_radius=0.012,
            head_radius=0.03,
            head_length=0.06,
            visible=False,
        )
        self.label = viser.add_label(f"{root}/force_label", "", visible=False)
        self._colours: dict[int, Colour] = {}
        self._placements = np.tile(np.eye(4), (scene.model.bodies, 1, 1))
        self.show(ArmState(0.0, q=_middle(scene)))

    def show(self, state: ArmState) -> None:
        """Draw the arm at the positions of a state, with the colours and the force of its contact.

        Without positions in ``state``, the arm does not move. The arrow is drawn if the force is
        known and the touched link belongs to the model. It starts at the contact point, or at the
        origin of the touched link if the point is unknown.
        """
        if state.q is not None:
            self._placements = self.scene.placements(state.q)
            quaternions = Rotation.from_matrix(self._placements[:, :3, :3]).as_quat()[
                :, [3, 0, 1, 2]
            ]
            for frame, placement, wxyz in zip(
                self.bodies, self._placements, quaternions, strict=True
            ):
                frame.position, frame.wxyz = placement[:3, 3], wxyz
        self._colour(state)
        self._point(state.touch)

    def colour_of(self, link: str) -> Colour:
        """Return the present colour of the first solid of a link.

        Raises:
            StopIteration: if the link has no solid.
        """
        number = next(k for k, (shape, _) in enumerate(self.solids) if shape.link == link)
        return self._colours.get(number, self.solids[number][0].colour)

    def _add(self, number: int, shape: Shape) -> Any:
        body = f"/body_{shape.body}" if shape.body >= 0 else ""
        name = f"{self._root}{body}/solid_{number}"
        wxyz = Rotation.from_matrix(shape.placement[:3, :3]).as_quat()[[3, 0, 1, 2]]
        where = {"position": shape.placement[:3, 3], "wxyz": wxyz, "color": shape.colour}
        if shape.kind == "box":
            return self._viser.add_box(name, dimensions=tuple(shape.size), **where)
        if shape.kind == "cylinder":
            radius, _, length = (float(x) for x in shape.size)
            return self._viser.add_cylinder(name, radius=radius, height=length, **where)
        scale = tuple(float(x) for x in shape.size)
        if shape.kind == "ellipsoid":
            return self._viser.add_icosphere(name, radius=1.0, scale=scale, **where)
        return self._viser.add_mesh_simple(name, shape.vertices, shape.faces, scale=scale, **where)

    def _colour(self, state: ArmState) -> None:
        likely: dict[int, float] = {}
        touched = -2
        if state.touch is not None:
            body = self.scene.model.link_body
            for link, probability in state.touch.probabilities.items():
                if link in body:
                    likely[body[link]] = max(likely.get(body[link], 0.0), probability)
            touched = body.get(state.touch.link, -2)
        for number, (shape, solid) in enumerate(self.solids):
            colour = shape.colour
            if shape.body == touched:
                colour = TOUCHED.get(state.verdict, TOUCHED["contact"])
            elif shape.body in likely:
                colour = blend(colour, CANDIDATE, likely[shape.body])
            if self._colours.get(number, shape.colour) != colour:
                self._colours[number] = colour
                solid.color = colour

    def _point(self, touch: Touch | None) -> None:
        """Draw the arrow from the contact point along the force."""
        force = None if touch is None else touch.force
        size = 0.0 if force is None else float(np.linalg.norm(force))
        is_known = touch is not None and touch.link in self.scene.model.link_body
        self.arrow.visible = self.label.visible = is_known and size > 0.0
        if touch is None or force is None or not self.arrow.visible:
            return
        start = touch.point
        if start is None:
            start = self.scene.link_placement(self._placements, touch.link)[:3, 3]
        length = float(np.clip(ARROW_SCALE * size, *ARROW_LENGTH))
        end = start + length / size * force
        self.arrow.points = np.array([[start, end]], dtype=np.float32)
        self.label.position = end
        self.label.text = f"{size:.1f} N"


def blend(base: Colour, over: Colour, part: float) -> Colour:
    """Return the mixture of two colours, ``(1 - part) base + part over``, rounded.

    Args:
        base, over: the colours, as red, green and blue from 0 to 255.
        part: share of ``over``, in [0, 1].
    """
    red, green, blue = (round((1.0 - part) * a + part * b) for a, b in zip(base, over, strict=True))
    return red, green, blue


def _middle(scene: Scene) -> Array:
    """Return the middle of the joints' ranges, or zero for joints without limits, (nq,)."""
    lower, upper = scene.model.lower_limit, scene.model.upper_limit
    limited = np.isfinite(lower) & np.isfinite(upper)
    return np.where(
        limited, 0.5 * (np.where(limited, lower, 0.0) + np.where(limited, upper, 0.0)), 0.0
    )
