"""A fleet of short recordings: simulated arms over half a year, copies of others, five damaged."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from bench.contacts.arms import arm
from bench.fleet.damage import DAMAGES
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.playback.bag import BOOL, JOINT_STATE
from rbd_control.playback.recording import CONTACT_TOPICS
from rbd_control.simulation import arm7_urdf

ROOT = Path(__file__).resolve().parents[2]
COPIED = (ROOT / "test" / "data", ROOT.parent / "shared" / "data")
"""Folders with recordings of a Panda; the recordings that exist are copied."""

ARMS = ("left", "middle", "right")
"""Names of the simulated arms."""

RATE = 500
"""Joint states per second of a simulated recording."""

BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)
DAYS = 180.0
"""Number of days over which the recordings are distributed."""

GROWTH = 0.1
"""Growth of the Coulomb friction per 30 days, for the first arm."""

TOUCHED = 5
"""Every fifth recording has a contact, which is a torque on the second joint."""

PUSH = 25.0
"""External torque of a contact [N·m]."""

_FREE_OF_CONTACT = ("free", "sim_free_1", "sim_free_2", "panda_exciting_trajectory")
_COULOMB, _VISCOUS, _NOISE = 1.0, 0.5, 0.05


@dataclass(frozen=True)
class Fleet:
    """Files of a fleet of recordings on disk.

    Attributes:
        folder: folder of all files.
        damaged: paths of the damaged recordings.
        count: number of recordings, including the damaged recordings.
    """

    folder: Path
    damaged: tuple[Path, ...]
    count: int

    @property
    def bags(self) -> Path:
        """The folder of the recordings."""
        return self.folder / "bags"

    @property
    def sheet(self) -> Path:
        """The CSV file for ``--sheet``, with the properties of each recording."""
        return self.folder / "sheet.csv"


def make_fleet(folder: Path, count: int, seconds: float, copies: int) -> Fleet:
    """Create the recordings of a fleet: copies and simulated recordings, five of them damaged.

    Args:
        folder: an empty folder.
        count: total number of recordings.
        seconds: length of a simulated recording [s].
        copies: largest number of copies of existing recordings.
    """
    rows = [_row("recording", "arm", "urdf", "config", "free")]
    copied = _copy(folder, copies)
    rows += [
        _row(f"{path.parent.name}/{path.name}", "panda", "panda.urdf", "panda.yaml", free)
        for path, free in copied
    ]
    simulated = count - len(copied)
    for k in range(simulated):
        day = BEGIN + timedelta(days=DAYS * k / max(1, simulated - 1))
        which = k % len(ARMS)
        path = folder / "bags" / ARMS[which] / f"{k:04d}_{day:%Y-%m-%d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        is_touched = k % TOUCHED == TOUCHED - 1
        _simulate(path, k, day, seconds, growth=0.0 if which else GROWTH, touched=is_touched)
        rows.append(_row(f"{ARMS[which]}/{path.name}", ARMS[which], "arm7", "arm7.yaml", "no"))
        if not is_touched:
            rows[-1][-1] = "yes"
    (folder / "arm7.yaml").write_text(_CONFIG, encoding="utf-8")
    with (folder / "sheet.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return Fleet(folder, _damage(folder / "bags" / ARMS[0]), count)


_CONFIG = f"""contact_detector:
  ros__parameters:
    contact_threshold: [6.0]
    collision_threshold: [60.0]
    friction_model: coulomb_viscous
    friction_coulomb: [{_COULOMB}]
    friction_viscous: [{_VISCOUS}]
"""


def _row(*cells: str) -> list[str]:
    return list(cells)


def _copy(folder: Path, most: int) -> list[tuple[Path, str]]:
    """Copy recordings of a Panda, each several times; return them, and which are free."""
    bags = folder / "bags" / "panda"
    bags.mkdir(parents=True)
    if not most:
        return []
    (folder / "panda.urdf").write_text(arm("panda").urdf, encoding="utf-8")
    shutil.copy(ROOT / "config" / "panda_mujoco.yaml", folder / "panda.yaml")
    found = [
        *(path.parent for root in COPIED for path in sorted(root.glob("*/metadata.yaml"))),
        *(path for root in COPIED for path in sorted(root.rglob("panda_exciting*.db3"))),
    ]
    copies = []
    for k in range(most):
        source = found[k % len(found)]
        target = bags / f"{k:04d}_{source.name}"
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
        copies.append((target, "yes" if source.stem in _FREE_OF_CONTACT else ""))
    return copies


def _damage(folder: Path) -> tuple[Path, ...]:
    """Damage the first recordings of a folder, each in another way."""
    chosen = sorted(folder.iterdir())[: len(DAMAGES)]
    for path, damage in zip(chosen, DAMAGES, strict=True):
        damage(path)
    return tuple(chosen)


def _simulate(
    path: Path, seed: int, day: datetime, seconds: float, *, growth: float, touched: bool
) -> None:
    """Write a recording of an arm of seven joints with friction; one contact if ``touched``."""
    model = Model.from_urdf(arm7_urdf())
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    frequency = np.linspace(0.7, 1.7, model.nv) * rng.uniform(0.9, 1.1, model.nv)
    angle = np.outer(t, frequency) + rng.uniform(0.0, 2.0 * np.pi, model.nv)
    q, v = 0.4 * np.sin(angle), 0.4 * frequency * np.cos(angle)
    tau = inverse_dynamics(model, q, v, -(frequency**2) * q)
    months = (day - BEGIN) / timedelta(days=30)
    tau += _COULOMB * (1.0 + growth * months) * np.tanh(v / 0.02) + _VISCOUS * v
    tau += rng.normal(scale=_NOISE, size=tau.shape)
    contact = (0.5 * seconds, 0.5 * seconds + 0.4)
    if touched:
        # The motors withstand what the environment applies.
        tau[(t >= contact[0]) & (t < contact[1]), 1] -= PUSH
    flags = [(0.0, False), (contact[0], True), (contact[1], False)] if touched else []
    begin = int(day.timestamp()) * 10**9
    nanoseconds = begin + np.round(t * 1e9).astype(np.int64)
    store = get_typestore(Stores.LATEST)
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        for time, raw in _messages(model.joint_names, nanoseconds, q, v, tau):
            writer.write(states, time, raw)
        if flags:
            flag = writer.add_connection(CONTACT_TOPICS[0], BOOL, typestore=store)
            for at, on in flags:
                message = store.types[BOOL](data=on)
                writer.write(flag, begin + round(1e9 * at), store.serialize_cdr(message, BOOL))


def _messages(
    names: Sequence[str], nanoseconds: np.ndarray, *columns: np.ndarray
) -> Iterator[tuple[int, bytes]]:
    """Yield time [ns] and bytes of each joint state; only numbers differ between messages."""
    store = get_typestore(Stores.LATEST)
    times = (0x5A5A5A5A, 0x3C3C3C3C)
    stamp = store.types["builtin_interfaces/msg/Time"](*times)
    header = store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
    marks = [np.full(len(names), mark) for mark in (1.25e101, 1.25e102, 1.25e103)]
    message = store.types[JOINT_STATE](header, list(names), *marks)
    template = bytes(store.serialize_cdr(message, JOINT_STATE))
    rows = np.tile(np.frombuffer(template, np.uint8), (len(nanoseconds), 1))
    seconds = np.stack(np.divmod(nanoseconds, 10**9), 1).astype("<u4")
    pairs = [(np.array(times, "<u4"), seconds)]
    pairs += list(zip(marks, columns, strict=True))
    for mark, values in pairs:
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(rows), -1)
        place = template.index(mark.tobytes())
        rows[:, place : place + raw.shape[1]] = raw
    return zip(nanoseconds.tolist(), map(bytes, rows), strict=True)
