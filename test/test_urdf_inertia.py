"""Masses and inertias of a URDF: physical plausibility, point masses and massless links."""

from __future__ import annotations

import pytest
from urdf_texts import BODY, arm, assert_names, inertial, joint, link, robot

from rbd_control.dynamics.model import Model
from rbd_control.errors import ModelError, ModelWarning

POINT_MASS = inertial(ixx="0", iyy="0", izz="0").replace("<mass", '<origin xyz="0.1 0 0"/><mass')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (arm(""), ("joint 'elbow'", "link 'forearm'", "singular")),
        (arm(inertial(ixx="-0.01")), ("link 'forearm'", "not positive definite", "-0.01")),
        (arm(inertial(ixx="0")), ("link 'forearm'", "not positive definite", "0 0.02 0.02")),
        (arm(POINT_MASS), ("'forearm'", "not positive definite")),
        (
            arm(inertial(ixx="0.1", iyy="0.1", izz="0.5")),
            ("link 'forearm'", "inertia violates the triangle inequality", "0.1 0.1 0.5 kg·m²"),
        ),
        (
            arm(
                BODY,
                "",
                link("tool", inertial(izz="0.5")),
                joint("flange", "forearm", "tool", "fixed"),
            ),
            ("link 'tool'", "triangle inequality"),
        ),
    ],
)
def test_warned_of_once_and_refused_where_strict(text: str, words: tuple[str, ...]) -> None:
    with pytest.warns(ModelWarning) as said:
        model = Model.from_urdf(text)
    assert len(said) == 1
    for word in words:
        assert word in str(said[0].message)
    assert model.nv == 2
    assert model.remarks
    with pytest.raises(ModelError) as caught:
        Model.from_urdf(text, strict=True)
    assert_names(caught.value, words)


def wrist(first: str, second: str, third: str, kind: str = "revolute", flange: str = BODY) -> str:
    """Three joints through one point, with massless links between them."""
    return robot(
        link("base"),
        link("a", ""),
        link("b", ""),
        link("c", flange),
        joint("j1", "base", "a", axis=f'<axis xyz="{first}"/>'),
        joint("j2", "a", "b", axis=f'<axis xyz="{second}"/>', xyz="0 0 0"),
        joint("j3", "b", "c", kind, axis=f'<axis xyz="{third}"/>', xyz="0 0 0"),
    )


POINT = link("tip", inertial(ixx="0", iyy="0", izz="0"))


ON_AXIS = POINT + joint("tool", "c", "tip", "fixed", xyz="0 0 1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (wrist("1 0 0", "0 0 1", "0 0 1"), "j2"),
        (wrist("0 0 1", "0 1 0", "0 0 1", flange=""), "j3"),
        (wrist("0 0 1", "0 1 0", "0 0 1", "prismatic", flange=""), "j3"),
        (
            wrist("1 0 0", "0 1 0", "0 0 1", flange="").replace("</robot>", f"{ON_AXIS}</robot>"),
            "j3",
        ),
    ],
)
def test_massless_links_that_make_the_mass_matrix_singular_are_refused(
    text: str, name: str
) -> None:
    with pytest.raises(ModelError, match=f"joint '{name}'.*singular"):
        Model.from_urdf(text)


def test_a_massless_floating_root_needs_bodies_that_resist_its_every_motion() -> None:
    # Behind a single joint the root may always turn with that joint and move nothing.
    with pytest.raises(ModelError, match=r"'root_joint'.*'base'.*singular"):
        Model.from_urdf(arm(), floating_base=True)
    other = link("leg") + joint("hip", "base", "leg", axis='<axis xyz="1 0 0"/>')
    assert Model.from_urdf(arm(BODY, "", other), floating_base=True).nv == 9
