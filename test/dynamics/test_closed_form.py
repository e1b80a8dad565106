"""Lynch & Park's closed form: its own identities, then the recursions it must agree with.

ROUNDOFF: products of dense matrices of some fifty rows lose two digits more than the recursions;
a rotor with gear ratio 60 has terms in c that cancel to another two.
"""

from __future__ import annotations

import numpy as np
import pytest

from rbd_control import dynamics

from .helpers import random_q, relative, tree, units

ROUNDOFF = 1e-11


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("rotors", ["", "geared"])
def test_terms_are_those_of_the_recursions(seed: int, floating: bool, rotors: str) -> None:
    model, rng = tree(seed, floating=floating, rotors=rotors), np.random.default_rng(seed)
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
