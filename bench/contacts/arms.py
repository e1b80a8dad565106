"""Arms of the study in MuJoCo: published URDFs, and the arm that ships with the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from rbd_control.dynamics import Model

ROBOTS = "cmeel.prefix/share/example-robot-data/robots"


@dataclass(frozen=True, eq=False)
class Arm:
    """An arm with its nominal description, the centre of its motions and its sensors."""

    name: str
    urdf: str
    """Nominal description, which the detector uses."""
    centre: np.ndarray
    """(nv,) centre of the motions [rad]."""
    encoder_bits: int
    """Number of bits of the encoders per turn of a joint."""
    meshes: Path
    """Folder that ``package://example-robot-data`` refers to."""
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", Model.from_urdf(self.urdf))


def arm(name: str) -> Arm:
    """Return the arm with a name from :data:`ARMS`.

    Raises:
        KeyError: if there is no arm of this name.
        PackageNotFoundError: if the package ``example-robot-data``, which contains the published
            URDFs, is not installed.
    """
    if name == "arm7":
        urdf = Path(__file__).parents[2] / "rbd_control" / "robot" / "arm7.urdf"
        return Arm(
            name, urdf.read_text(encoding="utf-8"), np.array(_CENTRES[name]), 19, urdf.parent
        )
    path, without, bits = _PUBLISHED[name]
    root = Path(str(distribution("example-robot-data").locate_file(ROBOTS)))
    text = (root / path).read_text(encoding="utf-8")
    return Arm(name, _pruned(text, without), np.array(_CENTRES[name]), bits, root.parent)


def _pruned(urdf: str, joints: Sequence[str]) -> str:
    """Return the description without ``joints`` and their subtrees."""
    robot = ElementTree.fromstring(urdf)
    for name in joints:
        # The joints of the child link of a removed joint are removed as well.
        wanted = [joint for joint in robot.findall("joint") if joint.get("name") == name]
        while wanted:
            joint = wanted.pop()
            child = str(joint.find("child").get("link"))  # type: ignore[union-attr]
            robot.remove(joint)
            for link in robot.findall("link"):
                if link.get("name") == child:
                    robot.remove(link)
            wanted += [
                other
                for other in robot.findall("joint")
                if other.find("parent").get("link") == child  # type: ignore[union-attr]
            ]
    return ElementTree.tostring(robot, encoding="unicode")


_PUBLISHED: dict[str, tuple[str, tuple[str, ...], int]] = {
    "panda": ("panda_description/urdf/panda.urdf", ("panda_hand_joint",), 19),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", (), 17),
    "ur10": ("ur_description/urdf/ur10_robot.urdf", (), 19),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", (), 17),
}
_CENTRES: dict[str, tuple[float, ...]] = {
    "panda": (0.0, -0.3, 0.0, -1.9, 0.0, 1.8, 0.6),
    "ur5": (0.0, -1.2, 1.4, -1.2, -1.3, 0.0),
    "ur10": (0.0, -1.2, 1.4, -1.2, -1.3, 0.0),
    "xarm7": (0.0, -0.2, 0.0, 1.3, 0.0, 1.2, 0.0),
    "arm7": (0.0, 0.5, 0.0, 1.1, 0.0, 0.8, 0.0),
}
ARMS = tuple(_CENTRES)
