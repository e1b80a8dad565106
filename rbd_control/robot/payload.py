"""The payload of the arm, in addition to its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.dynamics.inertia import central_inertia, pseudo_inertia
from rbd_control.errors import InputError, ParameterError
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PayloadParameters(Parameters):
    """Parameters of the payload: a rigid body on a link, such as a gripper that the URDF lacks.

    Raises:
        ParameterError: for other than 3 values of ``payload_com`` or 6 of ``payload_inertia``.
    """

    HEADING = "Payload, in addition to the description"

    REMOVED_NAMES: ClassVar[Mapping[str, str]] = {
        "payload_reach": "it is now largest_payload_reach, and payload_mass of the adaptive law is "
        "now largest_payload_mass; payload_mass is the mass that the arm carries",
    }

    payload_mass: float = parameter(
        0.0, "mass of the present payload", unit="kg", lower=0.0, upper=1e4
    )
    payload_link: str = parameter(
        "",
        "link that carries the payload; empty: the link of the last joint",
        in_description=True,
    )
    payload_com: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0),
        "centre of mass of the payload in the frame of payload_link: x y z",
        unit="m",
        lower=-10.0,
        upper=10.0,
    )
    payload_inertia: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "inertia of the payload about payload_com, axes of payload_link: xx yy zz xy xz yz",
        unit="kg·m²",
        lower=-1e4,
        upper=1e4,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, count in (("payload_com", 3), ("payload_inertia", 6)):
            values = getattr(self, name)
            if len(values) != count:
                raise ParameterError(f"{name} has {len(values)} values; give {count}")

    def loaded(self, model: Model) -> Model:
        """Return the model with this payload; the model itself if the mass is zero.

        Raises:
            InputError: if the model has no link ``payload_link``, also if the mass is zero; if a
                mass is given and that link is fixed to the world, or no rigid body can have the
                inertia.
        """
        link = self.payload_link or model.joint_links[-1]
        model.link_index(link)
        if self.payload_mass == 0.0:
            return model
        return model.with_payload(link, self.payload_mass, self.payload_com, self._inertia)

    @property
    def _inertia(self) -> Array:
        xx, yy, zz, xy, xz, yz = self.payload_inertia
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def with_point_mass(self, model: Model, mass: float, com: Sequence[float]) -> PayloadParameters:
        """Return this payload together with a point mass on the link of the last joint.

        Args:
            model: the arm; its links name the frames.
            mass: the point mass [kg].
            com: its place in the frame of the link of the last joint, (3,) [m].

        Raises:
            InputError: if this payload is on a link that moves relative to that of the last joint.
            ParameterError: for a mass or place outside the range of the parameters.
        """
        last = model.joint_links[-1]
        link = self.payload_link or last
        if not self.payload_mass:
            return PayloadParameters(mass, last, tuple(com))
        if model.link_index(link) != model.link_index(last):
            raise InputError(f"the present payload is on {link}, which moves relative to {last}")
        place = (np.linalg.inv(model.link_placement[link]) @ np.array([*com, 1.0]))[:3]
        both = pseudo_inertia(self.payload_mass, np.array(self.payload_com), self._inertia)
        both += pseudo_inertia(mass, place, np.zeros((3, 3)))
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = central_inertia(both).tolist()
        center = (both[:3, 3] / both[3, 3]).tolist()
        return PayloadParameters(float(both[3, 3]), link, tuple(center), (xx, yy, zz, xy, xz, yz))


def needed_share(weight: Array, limit: Array) -> Array:
    """Return ``|weight| / limit``: the share of its limit that each joint needs to hold the arm.

    Args:
        weight: gravity torque, (..., nv) [N·m or N].
        limit: largest torque of each joint, (nv,) [N·m or N]; infinite, or zero and below, for a
            joint without limit.

    Returns:
        The shares, (..., nv); above 1 if the joint is too weak, zero for a joint without limit.
    """
    limited = limit > 0.0
    return np.where(limited, np.abs(weight) / np.where(limited, limit, 1.0), 0.0)


def require_weight(
    names: Sequence[str],
    weight: Array,
    limit: Array,
    accepted: Array | float = 1.0,
    place: str = "here",
) -> None:
    """Raise an error if the gravity torque of a joint exceeds its limit.

    Args:
        names: names of the joints, nv of them.
        weight, limit: gravity torques and torque limits, as for :func:`needed_share`.
        accepted: largest accepted share of the limit, (nv,) or one for all; a value below 1 counts
            as 1. With the share of the present payload, a joint that is overloaded already is
            accepted if its share does not grow.
        place: words for the pose in the message, such as ``at the last point``.

    Raises:
        InputError: naming the first joint that is too weak, and the share of its limit it needs.
    """
    share = needed_share(weight, limit)
    for i in np.flatnonzero(share > np.maximum(accepted, 1.0))[:1]:
        raise InputError(
            f"too heavy: {names[i]} cannot hold the arm {place}: gravity torque "
            f"is {share[i]:.3g} times its limit"
        )
