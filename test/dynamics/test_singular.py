"""Forward dynamics where the mass matrix is singular up to rounding is refused, with the joint."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from robots import random_tree_urdf, urdf_path

from rbd_control.dynamics import Model, forward_dynamics, forward_dynamics_by_mass_matrix
from rbd_control.errors import InputError, ModelWarning

pytestmark = pytest.mark.filterwarnings("ignore:.*no rigid body can have the inertia")

MOUNT = '<origin xyz="1 2 3" rpy="0.3 0.7 -1"/>'
BODY = (
    '<inertial><origin xyz="0.03 0.02 0.1"/><mass value="2"/>'
    '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.13" iyz="0" izz="0.12"/></inertial>'
)


def wrist() -> Model:
    """Return three joints through one point with massless links between, aligned at q[1] = 0."""
    joints = "".join(
        f'<joint name="j{i}" type="continuous"><parent link="{a}"/><child link="{b}"/>'
        f'{MOUNT if i == 1 else ""}<axis xyz="{axis}"/></joint>'
        for i, a, b, axis in (
            (1, "o", "a", "0 0 1"),
            (2, "a", "b", "0 1 0"),
            (3, "b", "c", "0 0 1"),
        )
    )
    return Model.from_urdf(
        f'<robot name="wrist"><link name="o"/><link name="a"/><link name="b"/>'
        f'<link name="c">{BODY}</link>{joints}</robot>'
    )


def gripper() -> Model:
    """Return a massless gripper that holds a point mass on the axis of its joint."""
    text = f"""<robot name="arm"><link name="o"/><link name="a">{BODY}</link><link name="b"/>
        <joint name="arm" type="continuous"><parent link="o"/><child link="a"/>
          <axis xyz="0 1 0"/></joint>
        <joint name="grip" type="continuous"><parent link="a"/><child link="b"/>{MOUNT}
          <axis xyz="0 0.6 0.8"/></joint></robot>"""
    with pytest.warns(ModelWarning, match="'grip'"):
        model = Model.from_urdf(text)
    return model.with_payload("b", 1.0, (0.0, 0.6, 0.8), np.zeros((3, 3)))


SINGULAR: dict[str, tuple[Callable[[], Model], tuple[float, ...], str]] = {
    "wrist": (wrist, (0.3, 0.0, 0.2), "j1"),
    "wrist folded back": (wrist, (0.3, np.pi, 0.2), "j1"),
    "payload on the axis": (gripper, (0.4, 0.2), "grip"),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_configuration_is_refused_with_the_joint(name: str) -> None:
    make, positions, joint = SINGULAR[name]
    model, q = make(), np.array(positions)
    v, tau = np.full((2, model.nv), 0.5)
    refused = pytest.raises(InputError, match=f"singular.* joint '{joint}' without inertia")
    with refused:
        forward_dynamics(model, q, v, tau)
    with refused:
        forward_dynamics(model, q, v, tau, {model.link_names[-1]: np.ones(6)})
    several = np.tile(q, (2048, 1))  # in lanes; all but one regular
    several[:1000] += 0.5
    several[1001:] += 0.5
    with refused:
        forward_dynamics(model, several, v, tau)
    with pytest.raises(InputError, match="singular"):
        forward_dynamics_by_mass_matrix(model, q, v, tau)


def test_light_fingers_far_from_the_base_are_not_singular() -> None:
    robots = [Model.from_urdf(urdf_path("tiago_no_hand"), floating_base=True)]
    text = random_tree_urdf(1, 3, prismatic=0.0).replace(
        "</robot>",
        """<link name="finger"><inertial><mass value="1e-4"/>
        <inertia ixx="1e-9" ixy="0" ixz="0" iyy="1e-9" iyz="0" izz="1e-9"/></inertial></link>
        <joint name="finger" type="continuous"><parent link="link3"/><child link="finger"/>
          <origin xyz="5 0 0"/><axis xyz="0 0 1"/></joint></robot>""",
    )
    robots.append(Model.from_urdf(text))
    for model in robots:
        q = np.full(model.nq, 0.3)
        assert np.isfinite(forward_dynamics(model, q, *np.ones((2, model.nv)))).all()
