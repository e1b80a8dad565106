"""Lynch & Park's closed form: its own identities, then the recursions it must agree with.

ROUNDOFF: products of dense matrices of some fifty rows lose two digits more than the recursions;
a rotor with gear ratio 60 has terms in c that cancel to another two.
"""

from __future__ import annotations

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, with_rotors

from .helpers import random_q, relative, units

ROUNDOFF = 1e-11


def robot(seed: int, *, floating: bool, geared: bool) -> tuple[Model, np.random.Generator]:
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(seed, 7, prismatic=0.3, branching=0.4, continuous=0.2)
    model = Model.from_urdf(urdf, floating_base=floating, gravity=rng.uniform(-10, 10, 3))
    if geared:
        inertia = np.diag([2e-4, 2e-4, 3e-4])
        rotors = {
            name: Rotor(
                rng.uniform(-60.0, 60.0), inertia, rng.normal(size=3), 0.2, rng.normal(size=3)
            )
            for name in model.joint_names[::2]
        }
        model = with_rotors(model, rotors)
    return model, rng


every_kind = pytest.mark.parametrize(
    ("seed", "floating", "geared"),
    [(seed, floating, geared) for seed in (0, 1, 2) for floating in (0, 1) for geared in (0, 1)],
)


@every_kind
def test_terms_are_those_of_the_recursions(seed: int, floating: bool, geared: bool) -> None:
    model, rng = robot(seed, floating=floating, geared=geared)
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    M, C, _, g = dynamics.dynamics_terms(model, q, v)
    unit, square = units(M)
    terms = dynamics.closed_form_terms(model, q, v)
    assert relative(terms.M / square, M / square) < ROUNDOFF
    assert relative(terms.c / unit, C @ v / unit) < ROUNDOFF
    assert relative(terms.g / unit, g / unit) < ROUNDOFF
    wrenches = {link: rng.normal(size=6) for link in model.link_names[::3]}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(model, q, v, a, pushed)
        mine = dynamics.closed_form_inverse_dynamics(model, q, v, a, pushed)
        assert relative(mine / unit, tau / unit) < ROUNDOFF
        found = dynamics.forward_dynamics_by_mass_matrix(model, q, v, tau, pushed)
        assert relative(found * unit, a * unit) < ROUNDOFF
        again = dynamics.forward_dynamics(model, q, v, tau, pushed)
        assert relative(found * unit, again * unit) < ROUNDOFF
