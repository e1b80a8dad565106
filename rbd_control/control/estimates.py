"""Estimates of the adaptive control law, for publication and for YAML files."""

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
from rbd_control.files.yaml_input import read_yaml

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinkEstimate:
    """Inertial parameters of an adapted link, including everything fixed to it and the payload."""

    link: str
    mass: float
    """Mass [kg]."""
    com: Array
    """Centre of mass in the frame of the link, (3,) [m]."""
    inertia: Array
    """Rotational inertia about the centre of mass, axes of the link, (3, 3) [kg·m²]."""


@dataclass(frozen=True, slots=True)
class FrictionEstimate:
    """Estimated friction of a joint."""

    joint: str
    coulomb: float
    """Coulomb friction [N·m or N]."""
    viscous: float
    """Viscous friction [N·m·s/rad or N·s/m]."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """All estimates of an adaptive law: one entry for each adapted link, and for each joint.

    ``joints`` is an empty tuple if friction is not learned.
    """

    links: tuple[LinkEstimate, ...]
    joints: tuple[FrictionEstimate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the estimates as nested dictionaries of numbers and lists, for YAML or JSON.

        The form is ``{"links": {name: {"mass": ..., "com": ..., "inertia": ...}}, "joints": {name:
        {"coulomb": ..., "viscous": ...}}}``, with the shapes and units of the attributes.
        """
        return {
            "links": {
                x.link: {"mass": x.mass, "com": x.com.tolist(), "inertia": x.inertia.tolist()}
                for x in self.links
            },
            "joints": {x.joint: {"coulomb": x.coulomb, "viscous": x.viscous} for x in self.joints},
        }

    @classmethod
    def from_dict(cls, values: Any) -> Estimates:
        """Return the estimates in a dictionary of :meth:`to_dict`.

        Raises:
            InputError: naming a missing value, or a value that is not a finite number or has the
                wrong shape. Physical consistency is checked later, by the law that uses the
                estimates.
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
        """Write a YAML file; an existing file stays complete until the new file is complete.

        Raises:
            OSError: if the file, or ``<path>.new`` beside it, cannot be written.
        """
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.write_text(yaml.safe_dump(self.to_dict(), sort_keys=False), encoding="utf-8")
        unfinished.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Estimates:
        """Read a file that :meth:`save` wrote.

        Raises:
            InputError: as :meth:`from_dict`, and if the file cannot be read, is no YAML, has an
                alias, or is larger or nested deeper than
                :func:`~rbd_control.files.yaml_input.read_yaml` permits.
        """
        try:
            values = read_yaml(path, InputError)
        except InputError as error:
            raise InputError(f"cannot read estimates from {path}: {error.message}") from error
        return cls.from_dict(values)


def _section(values: Any, name: str, keys: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Return ``values`` as a mapping; raise an InputError unless it has all ``keys``."""
    if not isinstance(values, Mapping):
        what = ", ".join(keys) or "names"
        raise InputError(f"estimates: {name} is {values!r}; it must hold {what}")
    for key in keys:
        if key not in values:
            held = ", ".join(map(str, values)) or "nothing"
            raise InputError(f"estimates: {name} has no {key!r}; it holds {held}")
    return values
