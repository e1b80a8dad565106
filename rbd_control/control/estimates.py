"""What an adaptive law has learned, as numbers with names: to publish, to keep and to take up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rbd_control.dynamics.checks import checked_array
from rbd_control.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """An adapted link and all that is fixed to it, payload included."""

    link: str
    mass: float
    """[kg]"""
    com: Array
    """(3,) centre of mass in the frame of the link [m]."""
    inertia: Array
    """(3, 3) about the centre of mass, axes of the link [kg·m²]."""


@dataclass(frozen=True, slots=True)
class FrictionEstimate:
    """Friction of a joint."""

    joint: str
    coulomb: float
    """[N·m or N]"""
    viscous: float
    """[N·m·s/rad or N·s/m]"""


@dataclass(frozen=True, slots=True)
class Estimates:
    """All that was learned; ``joints`` is empty where friction is not."""

    links: tuple[LinkEstimate, ...]
    joints: tuple[FrictionEstimate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and names, for YAML or JSON."""
        return {
            "links": {
                x.link: {"mass": x.mass, "com": x.com.tolist(), "inertia": x.inertia.tolist()}
                for x in self.links
            },
            "joints": {x.joint: {"coulomb": x.coulomb, "viscous": x.viscous} for x in self.joints},
        }

    @classmethod
    def from_dict(cls, values: Any) -> Estimates:
        """The inverse of :meth:`to_dict`.

        Raises:
            InputError: naming what is missing or no number. Whether there can be such a body is
                for the law to say that takes it up.
        """
        top = _section(values, "the file", ("links", "joints"))
        links, joints = _section(top["links"], "links"), _section(top["joints"], "joints")
        link_estimates, joint_estimates = [], []
        for name, value in links.items():
            value = _section(value, name, ("mass", "com", "inertia"))
            link_estimates.append(
                LinkEstimate(
                    name,
                    float(checked_array(f"mass of {name}", value["mass"], ())),
                    checked_array(f"com of {name}", value["com"], (3,)),
                    checked_array(f"inertia of {name}", value["inertia"], (3, 3)),
                )
            )
        for name, value in joints.items():
            value = _section(value, name, ("coulomb", "viscous"))
            pair = (
                float(checked_array(f"{key} of {name}", value[key], ()))
                for key in ("coulomb", "viscous")
            )
            joint_estimates.append(FrictionEstimate(name, *pair))
        return cls(tuple(link_estimates), tuple(joint_estimates))

    def save(self, path: str | Path) -> None:
        """Write a YAML file; one that is there stays whole until the new one is."""
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False), encoding="utf-8")
        unfinished.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Estimates:
        """Read a file that :meth:`save` wrote.

        Raises:
            InputError: as :meth:`from_dict`, and when the file cannot be read.
        """
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise InputError(f"cannot read estimates from {path}: {error}") from error
        return cls.from_dict(values)


def _section(values: Any, name: str, keys: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """``values`` as a mapping that has all ``keys``."""
    if not isinstance(values, Mapping):
        what = ", ".join(keys) or "names"
        raise InputError(f"estimates: {name} is {values!r}; it must hold {what}")
    for key in keys:
        if key not in values:
            held = ", ".join(map(str, values)) or "nothing"
            raise InputError(f"estimates: {name} has no {key!r}; it holds {held}")
    return values
