"""Damaged files with the command lines that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random

from bench.fuzz.descriptions import odd_description
from bench.fuzz.file_damage import (
    damaged_bytes,
    damaged_csv,
    damaged_db3,
    damaged_yaml,
    odd_messages,
)
from bench.fuzz.meshes import SOUND, damaged_mesh, meshed_robot
from bench.fuzz.recordings import (
    LABELS,
    LONG,
    PARAMETERS,
    ROBOT,
    SHORT,
    START,
    copy_bag,
    csv_text,
    motion,
    write_bag,
)
from rbd_control.estimation import DetectorParameters
from rbd_control.node_parameters import ReceivingParameters
from rbd_control.robot.payload import PayloadParameters

CALIBRATE_SHARE = 0.1
"""Share of the recordings and descriptions that go to ``calibrate``, which takes seconds."""

NAMES = tuple(
    item.name
    for kind in (DetectorParameters, PayloadParameters, ReceivingParameters)
    for item in fields(kind)
)
"""Names of parameters that a parameter file of the detector may contain."""


@dataclass(frozen=True)
class Specimen:
    """A damaged file and a command that reads it.

    Attributes:
        kind: name of the row of the results that counts the file.
        damaged: names of the damaged files; the message about a refused file must contain one.
        arguments: command line of ``rbd-control``; paths are relative to the folder.
    """

    kind: str
    damaged: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def command(self) -> str:
        """The sub-command of ``rbd-control``."""
        return self.arguments[0]


def make(random: Random, folder: Path) -> Specimen:
    """Write a random damaged file, and the valid files that its command needs, to an empty folder.

    Args:
        random: source of all choices.
        folder: the empty folder.
    """
    (folder / "robot.urdf").write_text(ROBOT, encoding="utf-8")
    kinds, weights = zip(*_KINDS, strict=True)
    return random.choices(kinds, weights, k=1)[0](random, folder)


def _command(random: Random, recording: str, share: float = CALIBRATE_SHARE) -> tuple[str, ...]:
    """Return a command line that reads a recording."""
    if random.random() < share:
        return ("calibrate", recording, "--urdf", "robot.urdf", "--out", "made.yaml")
    return ("replay", recording, "--urdf", "robot.urdf", "--json", "made.json")


def _length(arguments: tuple[str, ...]) -> float:
    """Return the length of a recording that suits a command [s]."""
    return LONG if arguments[0] == "calibrate" else SHORT


def _csv(random: Random, folder: Path) -> Specimen:
    arguments = _command(random, "damaged.csv")
    text = csv_text(motion(_length(arguments)))
    (folder / "damaged.csv").write_bytes(damaged_csv(random, text))
    return Specimen("CSV", ("damaged.csv",), arguments)


def _mcap(random: Random, folder: Path) -> Specimen:
    return _bag(random, folder, "mcap", lambda path: _in_place(random, path))


def _db3(random: Random, folder: Path) -> Specimen:
    return _bag(random, folder, "db3", lambda path: damaged_db3(random, path))


def _in_place(random: Random, path: Path) -> None:
    path.write_bytes(damaged_bytes(random, path.read_bytes()))


def _bag(random: Random, folder: Path, storage: str, damage: Callable[[Path], None]) -> Specimen:
    as_folder = random.random() < 0.5
    name = "damaged" if as_folder else f"damaged/damaged.{storage}"
    arguments = _command(random, name)
    contact = random.random() < 0.5
    path = copy_bag(folder / "damaged", storage, _length(arguments), contact)
    damage(path / f"damaged.{storage}")
    return Specimen(f".{storage}", ("damaged",), arguments)


def _metadata(random: Random, folder: Path) -> Specimen:
    arguments = _command(random, "damaged")
    storage = random.choice(("mcap", "db3"))
    path = copy_bag(folder / "damaged", storage, _length(arguments), contact=False)
    metadata = path / "metadata.yaml"
    choice = random.random()
    if choice < 0.1:
        (path / f"damaged.{storage}").unlink()
    elif choice < 0.2:
        metadata.unlink()
    elif choice < 0.6:
        text = metadata.read_text(encoding="utf-8")
        lines = text.splitlines()
        k = random.randrange(len(lines))
        key = lines[k].partition(":")[0]
        lines[k] = f"{key}: {random.choice(('null', '-1', '[]', '{}', 'text', '.nan', '1e400'))}"
        metadata.write_text("\n".join(lines), encoding="utf-8")
    else:
        _in_place(random, metadata)
    return Specimen("rosbag2 metadata", ("damaged", "metadata.yaml"), arguments)


def _content(random: Random, folder: Path) -> Specimen:
    arguments = _command(random, "damaged")
    messages = odd_messages(random, motion(_length(arguments)))
    storage = random.choice(("mcap", "mcap", "mcap", "db3"))  # SQLite takes longer to write
    write_bag(folder / "damaged", storage, messages, _flags(random))
    return Specimen("messages in a bag", ("damaged",), arguments)


def _flags(random: Random) -> list[tuple[float, bool]]:
    """Return a truth about contacts, at times in no order, double, or before the start."""
    count = random.choice((0, 0, 1, 2, 5))
    return [(START + random.uniform(-2.0, 5.0), random.random() < 0.5) for _ in range(count)]


def _urdf(random: Random, folder: Path) -> Specimen:
    arguments = _command(random, "sound.csv")
    text = csv_text(motion(_length(arguments)))
    (folder / "sound.csv").write_text(text, encoding="utf-8")
    damaged = odd_description(random, ROBOT).encode("utf-8", "replace")
    if random.random() < 0.1:
        damaged = damaged_bytes(random, damaged)
    (folder / "damaged.urdf").write_bytes(damaged)
    arguments = tuple("damaged.urdf" if each == "robot.urdf" else each for each in arguments)
    return Specimen("URDF", ("damaged.urdf",), arguments)


def _mesh(random: Random, folder: Path) -> Specimen:
    """Return a recording of a robot whose mesh is damaged: the replay does without the mesh."""
    (folder / "sound.csv").write_text(csv_text(motion(SHORT)), encoding="utf-8")
    ending = random.choice(tuple(SOUND))
    name = f"damaged.{ending}"
    (folder / name).write_bytes(damaged_mesh(random, ending))
    (folder / "meshed.urdf").write_text(meshed_robot(random, name), encoding="utf-8")
    arguments = ("replay", "sound.csv", "--urdf", "meshed.urdf", "--json", "made.json")
    return Specimen(f"mesh .{ending}", (name,), arguments)


def _yaml(random: Random, folder: Path) -> Specimen:
    (folder / "sound.csv").write_text(csv_text(motion(SHORT)), encoding="utf-8")
    (folder / "damaged.yaml").write_bytes(damaged_yaml(random, PARAMETERS, NAMES))
    arguments = (*_command(random, "sound.csv", share=0.0), "--config", "damaged.yaml")
    return Specimen("parameter file", ("damaged.yaml",), arguments)


def _labels(random: Random, folder: Path) -> Specimen:
    (folder / "sound.csv").write_text(csv_text(motion(SHORT)), encoding="utf-8")
    (folder / "damaged_labels.csv").write_bytes(damaged_csv(random, LABELS))
    arguments = (*_command(random, "sound.csv", share=0.0), "--labels", "damaged_labels.csv")
    if random.random() < 0.2:
        arguments = (*arguments, "--curve")
    return Specimen("labels", ("damaged_labels.csv",), arguments)


_KINDS: tuple[tuple[Callable[[Random, Path], Specimen], float], ...] = (
    (_csv, 0.2),
    (_mcap, 0.15),
    (_db3, 0.15),
    (_metadata, 0.05),
    (_content, 0.1),
    (_urdf, 0.1),
    (_mesh, 0.1),
    (_yaml, 0.1),
    (_labels, 0.05),
)
"""Function that creates each kind of specimen, and its fraction of all specimens."""
