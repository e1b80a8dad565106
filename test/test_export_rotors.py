"""Exported C of robots with rotors on floating bases and with massless links; no inertia at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynamics.helpers import random_q, relative
from dynamics.test_laws_with_rotors import geared, without_mass
from exported_code import TOLERANCE, Code, largest_difference, needs_compiler
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelWarning
from rbd_control.export import export_c


def robot(kind: str, *, floating: bool) -> Model:
    """Return a chain of three joints with a massless link; ``kind`` is that of its rotors."""
    text = without_mass(random_tree_urdf(3, 3, branching=0.0, prismatic=0.4), "link1")
    model = Model.from_urdf(text, floating_base=floating, gravity=(1.0, -2.0, -9.0))
    return geared(model, np.random.default_rng(1), reflected=kind == "reflected")


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "floating"), [("geared", True), ("reflected", True), ("reflected", False)]
)
def test_exported_functions_equal_the_library(kind: str, floating: bool, tmp_path: Path) -> None:
    model = robot(kind, floating=floating)
    code = Code(export_c(model, prefix="x"), "x", tmp_path, "-O0")
    rng = np.random.default_rng(2)
    different = largest_difference(code, model, rng)
    assert {k: e for k, e in different.items() if not e < TOLERANCE} == {}
    # Also with parameters that the model does not have, such as the mass of a reflected rotor.
    q, (v, v_r, a_r) = random_q(model, rng), rng.uniform(-2.0, 2.0, (3, model.nv))
    pi = rng.normal(size=dynamics.inertial_parameters(model).size)
    tau = code("regressor_product", q, v, v_r, a_r, pi, shape=model.nv)
    assert relative(tau, dynamics.regressor(model, q, v, v_r, a_r) @ pi) < TOLERANCE


@pytest.mark.parametrize("floating", [False, True])
def test_without_forward_dynamics_where_a_joint_carries_nothing(floating: bool) -> None:
    text = without_mass(random_tree_urdf(3, 2, branching=0.0, fixed=0.0), "link2")
    with pytest.warns(ModelWarning, match="'joint1'"):
        model = Model.from_urdf(text, floating_base=floating)
    files = export_c(model, prefix="x")
    assert "x_inverse_dynamics(" in files.header
    assert "forward_dynamics(" not in files.header
    note = "There is no forward_dynamics: the mass matrix is singular at every configuration"
    assert note in " ".join(files.header.replace(" * ", " ").split())
    for functions in (["all"], ["forward_dynamics"]):
        with pytest.raises(InputError, match="forward_dynamics cannot be exported.*'joint1'"):
            export_c(model, prefix="x", functions=functions)
    export_c(model, prefix="x", functions=["mass_matrix"])
