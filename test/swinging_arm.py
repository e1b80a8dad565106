"""Recordings of an arm of two joints that swings, with known external torques."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from robots import two_joint_urdf

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JointBlock, JointMessage
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording

JOINTS = ("arm_shoulder", "arm_elbow")


URDF = two_joint_urdf("arm_")


MODEL = Model.from_urdf(URDF)


PARAMETERS = DetectorParameters(contact_threshold=(2.0,), collision_threshold=(20.0,))


RATE = 200.0


START = 1000.0


Efforts = Callable[[np.ndarray, np.ndarray], np.ndarray]


def swing(
    push: Sequence[tuple[float, float, float]] = (),
    effort: Efforts = lambda q, tau: tau,
    duration: float = 4.0,
) -> list[JointMessage]:
    """Return a smooth exact motion; ``push`` adds an external elbow torque between two times.

    ``effort`` makes what is recorded of positions and true motor torques.
    """
    t = np.arange(round(duration * RATE)) / RATE
    omega, size, offset = np.array([1.5, 2.5]), np.array([0.5, 0.4]), np.array([-0.3, 0.6])
    phase = t[:, None] * omega
    q = offset + size * np.sin(phase)
    v = size * omega * np.cos(phase)
    a = -size * omega**2 * np.sin(phase)
    external = np.zeros_like(q)
    for begin, end, torque in push:
        external[(t >= begin) & (t < end), 1] = torque
    tau = effort(q, inverse_dynamics(MODEL, q, v, a) - external)
    return [
        JointMessage(START + t[k], START + t[k], JOINTS, q[k], v[k], tau[k]) for k in range(len(t))
    ]


def recorded(
    messages: Sequence[JointMessage],
    contacts: tuple[tuple[float, float | None], ...] | None = None,
) -> Recording:
    parts = [[Part(np.zeros(1, int), JointBlock.of(message))] for message in messages]
    names = tuple(messages[0].name)
    return Recording(
        Path("made"), "/joint_states", names, len(messages), contacts, lambda size: iter(parts)
    )


def write_csv(path: Path, messages: Sequence[JointMessage]) -> Path:
    names = messages[0].name
    columns = [f"{what}/{joint}" for what in ("position", "velocity", "effort") for joint in names]
    rows = [",".join(["time", *columns])]
    for m in messages:
        values = (m.stamp, *m.position, *m.velocity, *m.effort)  # type: ignore[misc]
        rows.append(",".join(map(repr, map(float, values))))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


LABELS = "recording, begin, end, link, force\n"
