"""From parameters to the model that a node or a replay works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelError
from rbd_control.node_parameters import ModelParameters, PayloadParameters
from rbd_control.parameters import Parameters
from rbd_control.simulation import arm7_urdf

P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class RobotModel:
    """A model and the order in which parameters and commands list its joints.

    ``order[i]`` is the index in the model of the i-th of ``joints``.
    """

    urdf: str
    model: Model
    joints: tuple[str, ...]
    order: NDArray[np.intp]

    @classmethod
    def load(
        cls,
        urdf: str,
        joints: Sequence[str] = (),
        locked: Mapping[str, float] = MappingProxyType({}),
    ) -> RobotModel:
        """Build the model from a URDF, as text or path.

        Movable joints that ``joints`` leaves out are held where ``locked`` says, or else at 0; all
        others move when ``joints`` is empty.

        Raises:
            ModelError: when the description cannot become a model.
            InputError: when ``joints`` or ``locked`` names a joint that is not movable, or
                ``joints`` one twice.
        """
        model = Model.from_urdf(urdf, locked=locked)
        names = tuple(joints) or model.joint_names
        for name in names:
            if name not in model.joint_names:
                raise InputError(
                    f"joints: no movable joint {name!r}; joints are {', '.join(model.joint_names)}"
                )
        if len(set(names)) != len(names):
            raise InputError(f"joints: a joint is named twice in {', '.join(names)}")
        held = {name: 0.0 for name in model.joint_names if name not in names}
        if held:
            model = Model.from_urdf(urdf, locked={**locked, **held})
        order = np.array([model.joint_index(name) for name in names], dtype=np.intp)
        return cls(urdf, model, names, order)

    def in_model_order(self, parameters: P) -> P:
        """The same parameters with per-joint values in the order of the model."""
        changes: dict[str, Any] = {}
        for item in fields(parameters):
            value = getattr(parameters, item.name)
            if item.metadata["per_joint"] and len(value) == len(self.joints) > 1:
                changes[item.name] = tuple(np.array(value)[np.argsort(self.order)])
            if item.metadata["joint_matrix"] and len(value) == len(self.joints) ** 2:
                place = np.argsort(self.order)
                matrix = np.array(value).reshape(place.size, place.size)
                changes[item.name] = tuple(matrix[np.ix_(place, place)].ravel())
        return replace(parameters, **changes)


def with_payload(model: Model, parameters: PayloadParameters) -> Model:
    """The model with the payload of the parameters; the same when there is none.

    Raises:
        InputError: when the model has no such link, or no body can have this inertia.
    """
    if parameters.payload_mass == 0.0:
        return model
    xx, yy, zz, xy, xz, yz = parameters.payload_inertia
    inertia = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    link = parameters.payload_link or model.joint_links[-1]
    return model.with_payload(link, parameters.payload_mass, parameters.payload_com, inertia)


def urdf_source(name: str) -> str:
    """What a user calls ``name``: the shipped arm for ``arm7``, else a path, as it is."""
    return arm7_urdf() if name == "arm7" else name


def description_text(parameters: ModelParameters) -> str:
    """The robot description that the parameters give; empty when they leave it to the topic.

    Raises:
        ModelError: when ``urdf`` names a file that cannot be read.
    """
    if parameters.robot_description:
        return parameters.robot_description
    if not parameters.urdf:
        return ""
    source = urdf_source(parameters.urdf)
    if source != parameters.urdf:
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"cannot read urdf {parameters.urdf!r}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"urdf {parameters.urdf!r} is not UTF-8 text: {error.reason}") from error
