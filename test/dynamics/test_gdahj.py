"""GDAHJ (S18): other algorithms give the same mass matrix; its operations; rejected robots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from bench.tables.s18 import TABLE_I, counted
from rbd_control.dynamics import (
    Model,
    Rotor,
    mass_matrix,
    mass_matrix_gdahj,
    with_rotors,
)
from rbd_control.errors import InputError

from .helpers import relative

# Sums of some hundred products; 60 joints and axes in any direction stay below 1e-14.
ROUNDOFF = 1e-13

LENGTHS = (1, 2, 7, 30, 60)


def chain(n: int, **arguments: Any) -> Model:
    return Model.from_urdf(random_tree_urdf(n, n, branching=0.0, prismatic=0.0), **arguments)


@pytest.fixture(params=LENGTHS)
def sample(request: pytest.FixtureRequest) -> tuple[Model, np.ndarray]:
    model = chain(request.param)
    return model, np.random.default_rng(request.param).uniform(-3.0, 3.0, model.nq)


# --- The matrix ----------------------------------------------------------------------------------


def test_composite_rigid_bodies(sample: tuple[Model, np.ndarray]) -> None:
    assert relative(mass_matrix_gdahj(*sample), mass_matrix(*sample)) < ROUNDOFF


def test_a_payload_counts() -> None:
    """The constants of the chain are kept per model, so a new model must have new ones."""
    model = chain(7)
    loaded = model.with_payload(model.link_names[-1], 3.0, [0.1, 0.2, 0.3], 0.01 * np.eye(3))
    q = np.linspace(-1.0, 1.0, 7)
    before = mass_matrix_gdahj(model, q)
    assert relative(mass_matrix_gdahj(loaded, q), mass_matrix(loaded, q)) < ROUNDOFF
    assert np.array_equal(mass_matrix_gdahj(model, q), before)


# --- S18's own figures ---------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_no_more_operations_than_table_1(n: int) -> None:
    published, ours = TABLE_I["GDAHJ"], counted(n)["GDAHJ"]
    assert ours.multiplications <= np.polyval(published.multiplications, n)
    assert ours.additions <= np.polyval(published.additions, n)


# --- What is refused -----------------------------------------------------------------------------


SLIDING = random_tree_urdf(3, 4, branching=0.0, prismatic=0.0).replace(
    'name="joint2" type="revolute"', 'name="joint2" type="prismatic"'
)
REFUSED = {
    "joint 'joint2' is prismatic": Model.from_urdf(SLIDING),
    "branches off before joint": Model.from_urdf(random_tree_urdf(4, 6, branching=1.0)),
    "the base of this robot, 'link0', floats": chain(3, floating_base=True),
    "joint 'joint1' has one": with_rotors(chain(3), {"joint1": Rotor(50.0, 1e-4)}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_robots_that_are_no_chain_of_revolute_joints_are_refused(words: str) -> None:
    model = REFUSED[words]
    with pytest.raises(InputError, match=words):
        mass_matrix_gdahj(model, np.zeros(model.nq))
