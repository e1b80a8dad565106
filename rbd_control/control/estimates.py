"""What the laws learn: estimates of the adaptive law, and the bias of each joint.

**Estimate of the constant torque of each joint that the model lacks: friction, weight.**

Gains that an arm with elastic gears and a late loop bears are soft: a friction of 8 % of the effort
limit, which the model does not know, would leave a wrist behind by some tenths of a radian. The law
therefore adds an estimate b of the missing torque, which is learned from the velocity error s::

    db_i/dt = -rate c_i / s_i_max (s_i, less a dead zone of ZONE s_i_max)        |b_i| <= c_i

with the bound ``c_i = SHARE`` of the effort limit and the largest reference speed s_i_max. For a
missing torque d within the bounds, ``½ sᵀ M s + sum of ½ s_i_max (b_i - d_i)² / (rate c_i)`` is a
storage function, so that the arm stays passive with respect to s: this is adaptation of one
parameter for each joint. An estimate that drives a joint beyond its reference, ``s_i b_i > 0``,
falls :data:`UNLEARNING` times faster, which reduces the power that it supplies along s. The dead
zone prevents that a joint which sticks hunts around its target.

The estimate is zero at the start and after the modes float and safe. It is kept during a contact
that the detector reports, and while limits change the torque. An adaptive law learns friction and
weight by itself, without this estimate.

Source: Slotine & Li, *Applied Nonlinear Control*, 1991, section 9.2 (adaptation of a constant).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.compiled import compiled, for_types_of
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


SHARE = 0.15
"""Bound of the estimate, as a share of the effort limit."""

ZONE = 0.05
"""Dead zone of the velocity error, as a share of the largest reference speed."""


UNLEARNING = 10.0
"""Factor of the rate at which an estimate falls.

When a joint breaks loose, static friction ends at once, and the estimate drives it beyond its
reference.
"""


class Bias:
    """Learns the missing torque of each joint of one arm, by the equations of this module.

    Args:
        effort: (nv,) effort limits [N·m or N]; joints without limit learn nothing.
        speed: (nv,) largest reference speeds [rad/s or m/s].
        rate: rate at which the estimate reaches its bound for the largest velocity error [1/s].

    Attributes:
        torque: (nv,) the estimates [N·m or N].
    """

    def __init__(self, effort: Array, speed: Array, rate: float) -> None:
        self._bound: Array = np.where(np.isfinite(effort), SHARE * effort, 0.0)
        self._speed, self._rate = speed, rate
        self.torque: Array = np.zeros(len(effort))
        zero = self.torque
        self._learn = for_types_of(learn_bias, (zero, zero, zero, zero, 0.0, zero))

    def take_over(self, before: Bias) -> None:
        """Continue from the estimates of another object for the same arm, within the bounds."""
        if self._rate > 0.0:
            self.torque = np.clip(before.torque, -self._bound, self._bound)

    def reset(self) -> None:
        """Set the estimates to zero."""
        self.torque = np.zeros(len(self._bound))

    def learn(self, s: Array, dt: float, torque: Array) -> None:
        """Correct the estimates, and add them to a torque.

        Args:
            s: (nv,) velocity error v - v_r [rad/s or m/s].
            dt: time since the previous sample [s].
            torque: (nv,) [N·m or N], changed in place.
        """
        self._learn(self.torque, s, self._bound, self._speed, self._rate * max(dt, 0.0), torque)


@compiled
def learn_bias(b, s, bound, speed, step, torque):  # type: ignore[no-untyped-def]
    """Correct the estimates in place, see the module, and add them to a torque in place.

    Args:
        b, bound: estimates and their bounds, (n,) each [N·m or N].
        s, speed: velocity errors and largest reference speeds, (n,) each [rad/s or m/s].
        step: rate times the time since the previous sample.
        torque: (n,) [N·m or N].
    """
    for i in range(b.shape[0]):
        zone = ZONE * speed[i]
        excess = s[i] - min(max(s[i], -zone), zone)
        change = -step * bound[i] * excess / speed[i]
        if change * b[i] < 0.0:
            change *= UNLEARNING
        if step > 0.0:
            b[i] = min(max(b[i] + change, -bound[i]), bound[i])
        torque[i] += b[i]
