"""Make the simulated recordings in this folder: ``python test/data/make_recordings.py``.

The arm is a Panda without hand in MuJoCo, with the friction and the corrections of its masses that
``specimen.yaml`` holds and its URDF does not know. Encoders have 19 bits, measured torques a noise
of 0.05 N·m.

``--calibration FOLDER`` makes the recordings of ``config/panda_mujoco.yaml`` instead: slow and fast
motion without contact, and the URDF. The configuration is then made by::

    rbd-control calibrate FOLDER/slow FOLDER/fast --urdf FOLDER/panda.urdf --out YAML

Values are rounded to powers of two far below the noise, so that the files compress well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rosbags.rosbag2 import (  # noqa: E402
    CompressionFormat,
    CompressionMode,
    StoragePlugin,
    Writer,
)
from rosbags.typesys import Stores, get_typestore  # noqa: E402

from bench.contacts.arms import arm  # noqa: E402
from bench.contacts.episode import Episode, simulate  # noqa: E402
from bench.contacts.motion import Motion  # noqa: E402
from bench.contacts.plant import Plant  # noqa: E402
from bench.contacts.touch import Collision, Push, Touch  # noqa: E402
from rbd_control.estimation import DetectorParameters  # noqa: E402
from rbd_control.node_parameters import law_parameters  # noqa: E402
from rbd_control.parameters import read_parameter_file  # noqa: E402
from rbd_control.playback.bag import BOOL, JOINT_STATE  # noqa: E402
from rbd_control.playback.recording import CONTACT_TOPICS, TORQUE_TOPICS  # noqa: E402
from rbd_control.robot.robot import robot_parameters  # noqa: E402

START = 1_700_000_000_000_000_000
"""Stamp of the first sample [ns]."""

STEPS = (2.0**-18, 2.0**-10, 2.0**-6)
"""Positions [rad], velocities [rad/s] and torques [N·m] are rounded to multiples of these."""

TRUTH_EVERY = 0.02
"""Time between true external torques in a recording [s]."""

FRICTION_IMPEDANCE = (0.9, 0.95)
"""Impedance of dry friction, MuJoCo's default: joints creep a little where they should stick."""

SLOW, FAST = (1.0, 2.0), (2.5, 4.0)
"""Angular frequencies of slow motions (up to 0.9 rad/s) and of fast ones (up to 1.8) [rad/s]."""

SPECIMEN = 1
"""Seed of the noise and of the properties that the configuration does not contain."""


class StagedPush(Push):
    """A constant force on a point of a link that is not drawn."""

    def __init__(self, start: float, link: str, force: Sequence[float]) -> None:
        super().__init__(start, 0.4, 0, 0.0)
        self._link = link
        self._force = np.array(force, dtype=float)

    def _choose(self, plant: Plant) -> None:
        self.row = plant.arm.model.joint_links.index(self._link)


class Swing(Motion):
    """One sine per joint, so that joints reverse rarely and quickly.

    Args:
        seed: of frequencies, phases and amplitudes.
        frequencies: range of the angular frequencies [rad/s].
    """

    def __init__(self, seed: int, frequencies: tuple[float, float]) -> None:
        panda = arm("panda")
        rng = np.random.default_rng(seed)
        super().__init__(panda.model, panda.centre, rng)
        n = panda.model.nv
        self._omega = rng.uniform(*frequencies, (1, n))
        self._phase = rng.uniform(0.0, 2.0 * np.pi, (1, n))
        self._amplitude = rng.uniform(0.3, 0.5, (1, n))


@dataclass(frozen=True)
class Plan:
    """A recording.

    Attributes:
        name: name of its folder.
        seed: of the motion.
        duration: length [s].
        rate: of the joint states [1/s].
        touches: contacts.
        frequencies: range of the angular frequencies of the motion [rad/s].
    """

    name: str
    seed: int
    duration: float
    rate: float
    touches: tuple[Touch, ...] = ()
    frequencies: tuple[float, float] = SLOW


def plans() -> tuple[Plan, ...]:
    """Return all recordings; touches cannot be used twice, so they are made anew."""
    return (
        Plan("free", 3, 24.0, 125.0),
        Plan("push20_link7", 20, 3.0, 1000.0, (StagedPush(1.5, "panda_link7", (0, 12, 16)),)),
        Plan("push8_link4", 23, 3.0, 1000.0, (StagedPush(1.5, "panda_link4", (0, 8, 0)),)),
        Plan("collision_link4", 29, 3.0, 1000.0, (Collision(1.5, 0.4, 1),)),
    )


def calibration_plans() -> tuple[Plan, ...]:
    """Return the recordings without contact that ``config/panda_mujoco.yaml`` is made from."""
    return (
        Plan("slow", 5, 20.0, 1000.0),
        Plan("fast", 6, 40.0, 1000.0, frequencies=FAST),
    )


def plant() -> Plant:
    """Return the arm that ``specimen.yaml`` describes."""
    made = Plant(arm("panda"), SPECIMEN, mass_error=(0.0, 0.0))
    values = read_parameter_file(FOLDER / "specimen.yaml", "contact_detector")
    parameters = law_parameters(DetectorParameters, values)
    n = made.arm.model.nv
    made.coulomb = parameters.for_joints("friction_coulomb", n)
    made.viscous = parameters.for_joints("friction_viscous", n)
    made.stribeck = np.zeros(n)
    made.mj.dof_damping[:] = made.viscous
    made.mj.dof_solimp[:, :2] = FRICTION_IMPEDANCE
    true = robot_parameters(values).corrected(made.arm.model).arrays
    made.mj.body_mass[made.body] = true.mass
    made.mj.body_ipos[made.body] = true.first_moment / true.mass[:, None]
    return made


def record(plan: Plan) -> Episode:
    """Simulate a recording at 1 kHz."""
    return simulate(
        plant(), plan.seed, plan.duration, plan.touches, Swing(plan.seed, plan.frequencies)
    )


def write(plan: Plan, episode: Episode, folder: Path) -> Path:
    """Write a recording as a rosbag2 folder (MCAP, chunks compressed with zstd)."""
    path = folder / plan.name
    store = get_typestore(Stores.LATEST)
    state_type, bool_type = store.types[JOINT_STATE], store.types[BOOL]
    header_type = store.types["std_msgs/msg/Header"]
    time_type = store.types["builtin_interfaces/msg/Time"]
    names = list(episode.arm.model.joint_names)
    q, v, tau = (
        np.round(values / step) * step
        for values, step in zip((episode.q, episode.v, episode.tau), STEPS, strict=True)
    )
    every = round(1000.0 / plan.rate)
    writer = Writer(path, version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        states, torques = (
            writer.add_connection(topic, JOINT_STATE, typestore=store)
            for topic in ("/joint_states", TORQUE_TOPICS[0])
        )
        flag = writer.add_connection(CONTACT_TOPICS[0], BOOL, typestore=store)
        touched = None
        for k, t in enumerate(episode.t):
            time = START + round(1e9 * t)
            now = bool(episode.force[k].any())
            if now != touched:
                touched = now
                writer.write(flag, time, store.serialize_cdr(bool_type(data=now), BOOL))
            stamp = time_type(sec=time // 10**9, nanosec=time % 10**9)
            header = header_type(stamp=stamp, frame_id="")
            if k % every == 0:
                state = state_type(header, names, q[k], v[k], tau[k])
                writer.write(states, time, store.serialize_cdr(state, JOINT_STATE))
            if k % round(1000.0 * TRUTH_EVERY) == 0:
                external = np.round(episode.external[k] / STEPS[2]) * STEPS[2]
                truth = state_type(header, names, np.zeros(0), np.zeros(0), external)
                writer.write(torques, time, store.serialize_cdr(truth, JOINT_STATE))
    return path


def main() -> None:
    """Make all recordings anew, or those of the calibration."""
    parser = argparse.ArgumentParser(description="Make simulated recordings of a Panda.")
    parser.add_argument("--calibration", type=Path, metavar="FOLDER")
    folder = parser.parse_args().calibration
    if folder:
        folder.mkdir(parents=True)
        (folder / "panda.urdf").write_text(arm("panda").urdf, encoding="utf-8")
    for plan in calibration_plans() if folder else plans():
        episode = record(plan)
        path = write(plan, episode, folder or FOLDER)
        size = sum(file.stat().st_size for file in path.iterdir())
        print(f"{plan.name}: {size / 1000:.0f} kB")
        for contact in episode.contacts:
            print(
                f"  {contact.kind} on {contact.link} from {contact.start:.3f} to {contact.end:.3f}"
            )


if __name__ == "__main__":
    main()
