"""Functions compiled for one model return the results of the plain ones, exactly or nearly."""

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    Rotor,
    christoffel_symbols,
    dynamics_terms,
    forward_dynamics,
    freeze,
    gravity_torque,
    inverse_dynamics,
    mass_matrix,
    momentum_terms,
    slotine_li_torque,
)

# The compiler may order or contract sums differently when it knows the constants.
ROUNDING = 1e-13


@pytest.fixture(
    scope="module",
    params=[{}, {"rotors": {"joint1": Rotor(20.0, 1e-3)}}, {"floating_base": True}],
    ids=["fixed", "rotor", "floating"],
)
def model(request: pytest.FixtureRequest) -> Model:
    return Model.from_urdf(random_tree_urdf(1, 4, branching=0.4, prismatic=0.3), **request.param)


def test_equals_the_plain_functions(model: Model) -> None:
    rng = np.random.default_rng(0)
    n = model.nv
    q = rng.normal(size=model.nq)
    v, a, v_r = rng.normal(size=(3, n))
    frozen = freeze(model)
    cases = [
        (frozen.mass_matrix, (q,), [(n, n)], [mass_matrix(model, q)]),
        (
            frozen.dynamics_terms,
            (q, v),
            [(n, n), (n, n), (n,), (n,)],
            dynamics_terms(model, q, v),
        ),
        (frozen.momentum_terms, (q, v), [(n,)] * 3, momentum_terms(model, q, v)),
        (frozen.gravity_torque, (q,), [(n,)], [gravity_torque(model, q)]),
        (frozen.christoffel_symbols, (q,), [(n, n, n)], [christoffel_symbols(model, q)]),
        (frozen.inverse_dynamics, (q, v, a), [(n,)], [inverse_dynamics(model, q, v, a)]),
        (frozen.forward_dynamics, (q, v, a), [(n,)], [forward_dynamics(model, q, v, a)]),
        (
            frozen.slotine_li_torque,
            (q, v, v_r, a),
            [(n,)],
            [slotine_li_torque(model, q, v, v_r, a)],
        ),
    ]
    for function, arguments, shapes, expected in cases:
        results = [np.full(shape, np.nan) for shape in shapes]
        function(*arguments, *results)
        for result, reference in zip(results, expected, strict=True):
            error = np.abs(result - reference).max()
            assert error <= ROUNDING * max(np.abs(reference).max(), 1.0), function


def test_two_models_do_not_mix() -> None:
    one, other = (Model.from_urdf(random_tree_urdf(seed, 3)) for seed in (7, 8))
    q = np.array([0.1, 0.2, 0.3])
    for m in (one, other, one):
        M = np.empty((3, 3))
        freeze(m).mass_matrix(q, M)
        np.testing.assert_allclose(M, mass_matrix(m, q), rtol=1e-12)
