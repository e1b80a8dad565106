"""The page: a viser server, a drawing and a panel of each arm, and the loop that updates them."""

from __future__ import annotations

import errno
import io
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.spatial.transform import Rotation

from rbd_control.errors import InputError
from rbd_control.files.input_files import reason
from rbd_control.view.panel import ArmPanel, PlaybackControls
from rbd_control.view.scene import Colour, Scene, Shape
from rbd_control.view.sources import RecordingSource, Source
from rbd_control.view.state import ArmState, Playhead, Touch

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


FRAME_PERIOD = 1.0 / 30.0
"""Period of the frames while a browser is connected [s]."""

TOLD_EVERY, PLOTTED_EVERY = 3, 6
"""Number of frames from one update of the texts, and of the charts, to the next."""

IDLE_PERIOD = 0.1
"""Period of the check of the sources while no browser is connected [s]."""

SPACING = 1.6
"""Distance between neighbouring arms of equal reach [m]; 1.3 times the reach if that is larger."""

PANEL_WIDTH = 420
"""Width of the panel beside the 3D scene [pixels]."""

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Host addresses that only programs on this machine can reach."""


@dataclass(frozen=True)
class Place:
    """Address and port at which the server of a page listens.

    Attributes:
        host: name or IP address; 127.0.0.1 cannot be reached from other machines.
        port: TCP port; 0 selects any free port.
    """

    host: str = "127.0.0.1"
    port: int = 8080

    def refuse(self) -> None:
        """Raise an error if the server cannot listen on this address.

        Raises:
            InputError: with the reason and the remedy, if the port is in use, or the host is not an
                address of this machine.
        """
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                # Two sockets can be bound with SO_REUSEADDR as long as neither listens.
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise InputError(self.in_use) from error
            raise InputError(
                f"cannot listen on {self.host}, port {self.port}: {reason(error)}; give --host and "
                "--port of this machine"
            ) from error

    @property
    def in_use(self) -> str:
        """Error message for a port that is in use, with the remedy."""
        return (
            f"port {self.port} of {self.host} is in use; give another one with --port, or 0 for "
            "any free one"
        )


def _serve(place: Place) -> Any:
    """Return a viser server that never opens a tunnel to the internet."""
    import viser

    class Server(viser.ViserServer):
        """A server that cannot be shared."""

        def request_share_url(self, verbose: bool = True) -> None:
            """Refuse to share the page."""

    with redirect_stdout(io.StringIO()):  # viser would print its addresses in a box
        return Server(host=place.host, port=place.port, label="rbd_control", verbose=False)


class Page:
    """Server that shows arms in the browser; it starts when the page is created.

    :meth:`run` updates the page, and :meth:`close` ends the server.

    Args:
        sources: the arms, live or recorded, from left to right; at most one of them may be a
            recording.
        place: address and port of the server.

    Attributes:
        place: address and port as given.
        port: port at which the server listens.
        frames: number of frames drawn so far.
        drawings: the drawing of each arm; None while its description is unknown.
        panels: the panel of each arm.
        controls: controls of the recording; None for live arms.
        dark: the switch for a dark page, a viser checkbox.

    Raises:
        InputError: if the port is in use, or the host is not an address of this machine.
    """

    def __init__(self, sources: Sequence[Source], place: Place) -> None:
        place.refuse()
        self._sources = tuple(sources)
        self._server = _serve(place)
        self.place, self.port = place, int(self._server.get_port())
        if place.port not in (0, self.port):
            self.close()
            raise InputError(place.in_use)
        self.frames = 0
        self.drawings: list[ArmDrawing | None] = [None] * len(self._sources)
        self.controls: PlaybackControls | None = None
        self._playhead: Playhead | None = None
        self._furnish()

    @property
    def address(self) -> str:
        """URL of the page with the port at which the server listens."""
        host = f"[{self.place.host}]" if ":" in self.place.host else self.place.host
        return f"http://{host}:{self.port}"

    @property
    def viewers(self) -> int:
        """Number of connected browsers."""
        return len(self._server.get_clients())

    def run(self, stopped: Callable[[], bool], duration: float | None = None) -> None:
        """Show the arms until ``stopped`` returns true.

        Frames are drawn, and a recording is played, only while a browser is connected. Otherwise
        the sources process their messages, so that the history of live arms has no gap.

        Args:
            stopped: called before each frame, and every :data:`IDLE_PERIOD` without a browser.
            duration: maximum time after which the method returns [s]; None without limit.

        Raises:
            RuntimeError: if two frames in a row cannot be drawn.
        """
        begin = last = now = due = time.monotonic()
        skipped = False
        while not stopped() and (duration is None or now - begin < duration):
            last, now = now, time.monotonic()
            viewers = self.viewers
            if viewers:  # a recording waits for the first one
                self.advance(now - last)
                try:
                    self.show()
                except RuntimeError:
                    if skipped:
                        raise
                    skipped = True
                else:
                    skipped = False
            else:
                for source in self._sources:
                    source.state()  # messages of live arms are added to the history
            period = FRAME_PERIOD if viewers else IDLE_PERIOD
            # After a delay, frames are skipped.
            due = max(due + period, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0.001))

    def advance(self, elapsed: float) -> None:
        """Advance the playback of a recording; live arms need no update.

        Args:
            elapsed: real time since the last call [s].
        """
        if self._playhead is not None:
            self._playhead.advance(elapsed)

    def show(self) -> None:
        """Draw one frame; update texts in every third and charts in every sixth frame."""
        with self._server.atomic():
            for number, source in enumerate(self._sources):
                state = self.panels[number].selected(source.state())
                drawing = self.drawings[number] or self._draw(number)
                if drawing is not None:
                    drawing.show(state)
                if self.frames % TOLD_EVERY == 0:
                    self.panels[number].tell(state)
                if self.frames % PLOTTED_EVERY == 0:
                    self.panels[number].plot()
            if self.controls is not None and self.frames % TOLD_EVERY == 0:
                self.controls.tell()
        self.frames += 1

    def close(self) -> None:
        """End the server; the page can no longer be used."""
        with redirect_stdout(io.StringIO()):
            self._server.stop()

    def _furnish(self) -> None:
        """Add the static parts: grid, camera, panels."""
        server, count = self._server, len(self._sources)
        self._set_dark(False)
        server.gui.main_panel.dock_right()
        server.gui.main_panel.set_width(PANEL_WIDTH)
        server.scene.add_grid(
            "/floor", 20.0, 20.0, cell_size=0.1, section_size=0.5, fade_distance=6.0
        )
        middle = 0.5 * SPACING * (count - 1)
        away = 1.0 + 0.5 * (count - 1)
        server.initial_camera.fov = np.radians(45.0)
        server.initial_camera.position = (1.7 * away, middle + 1.2 * away, 1.1)
        server.initial_camera.look_at = (0.0, middle, 0.5)
        for source in self._sources:
            if isinstance(source, RecordingSource):
                self._playhead = source.playhead
                self.controls = PlaybackControls(server.gui, source)
        self.panels = [
            ArmPanel(server.gui, source, in_folder=count > 1) for source in self._sources
        ]
        self.dark = server.gui.add_checkbox("dark page", initial_value=False)
        self.dark.on_update(lambda _: self._on_dark())

    def _on_dark(self) -> None:
        self._set_dark(bool(self.dark.value))
        for panel in self.panels:
            panel.redraw()

    def _set_dark(self, dark: bool) -> None:
        self._server.gui.configure_theme(show_logo=False, show_share_button=False, dark_mode=dark)

    def _draw(self, number: int) -> ArmDrawing | None:
        """Add an arm to the scene; return its drawing, None while its description is unknown."""
        source = self._sources[number]
        scene = source.scene
        if scene is None:
            return None
        y = number * max(SPACING, 1.3 * scene.reach)
        root = f"/arm_{number}"
        drawing = ArmDrawing(self._server.scene, root, scene, (0.0, y, 0.0))
        if len(self._sources) > 1:
            self._server.scene.add_label(f"{root}/name", source.name, position=(0.0, 0.0, -0.05))
        self.drawings[number] = drawing
        return drawing


def announce(page: Page, console: Console) -> None:
    """Print the URL of the page, and a warning if its host is not in :data:`LOCAL`."""
    console.print(f"view: {page.address} (Ctrl-C ends it)", markup=False, soft_wrap=True)
    if page.place.host not in LOCAL:
        console.print(
            f"anybody who can reach {page.place.host} on port {page.port} can watch; nobody can "
            "command the arm from the page",
            markup=False,
        )
