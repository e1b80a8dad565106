"""Pages with arms that a test holds in its hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.estimation import ContactEvent
from rbd_control.playback.result import ReplayResult
from rbd_control.robot.shapes import MeshFiles
from rbd_control.simulation import arm7_urdf
from rbd_control.view.scene import Scene, scene_of
from rbd_control.view.sources import RecordingSource, Track
from rbd_control.view.state import ArmState

Array = NDArray[np.float64]

FORCE = np.array([0.0, 0.0, -12.0])

EVENTS = tuple(
    ContactEvent(
        id=number,
        phase="release",
        level="contact",
        onset=onset,
        detected=onset + 0.01,
        release=onset + 1.0,
        joint="joint_2",
        link=link,
        peak_torque=6.0,
        force=FORCE,
        candidates=(link, "link_3"),
        confidence=0.7,
    )
    for number, (onset, link) in enumerate(((4.0, "link_5"), (12.0, "link_7")), start=1)
)


def arm7_scene() -> Scene:
    urdf = arm7_urdf()
    return scene_of(Model.from_urdf(urdf), urdf, MeshFiles(None, {}))


def recording() -> RecordingSource:
    """20 s in which joint 1 turns from -1 to 1 rad, with two contacts."""
    scene = arm7_scene()
    times = np.arange(1200) / 60.0
    q, ratios = np.zeros((1200, 7)), np.zeros((1200, 7))
    q[:, 0], q[:, 1], q[:, 3] = np.linspace(-1.0, 1.0, 1200), 0.4, -1.2
    levels = np.zeros(1200, dtype=np.int8)
    for event in EVENTS:
        assert event.release is not None
        inside = (times >= event.detected) & (times < event.release)
        levels[inside], ratios[inside, 1] = 1, 3.0
    track = Track(
        scene.model.joint_names, times, q.astype("f4"), ratios.astype("f4"), levels, EVENTS
    )
    result: ReplayResult = None  # type: ignore[assignment]  # no page looks at it
    return RecordingSource("arm", scene, track, result)


class Still:
    """An arm whose state a test sets."""

    def __init__(self, name: str = "arm", scene: Scene | None = None) -> None:
        self.name, self.scene = name, scene
        self.now = ArmState(0.0, q=np.zeros(7), joints=("joint_1",), ratios=np.zeros(1))
        self.past: dict[int, ArmState] = {}

    def set(self, **changes: Any) -> None:
        self.now = replace(self.now, **changes)

    def state(self) -> ArmState:
        return self.now

    def during(self, event: ContactEvent) -> ArmState | None:
        return self.past.get(event.id)

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        return ("joint_1",), np.array([0.0, 1.0]), np.array([[0.5], [2.0]])


@contextmanager
def running(page: Any) -> Iterator[None]:
    """Run a page in a thread until the context is left, and close it."""
    stop = threading.Event()
    thread = threading.Thread(target=page.run, args=(stop.is_set,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        page.close()
