"""Functions compiled for one model return the results of the plain ones, exactly or nearly."""

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor

# The compiler may order or contract sums differently when it knows the constants.
ROUNDING = 1e-13


@pytest.fixture(
    scope="module",
    params=[{}, {"rotors": {"joint1": Rotor(20.0, 1e-3)}}, {"floating_base": True}],
    ids=["fixed", "rotor", "floating"],
)
def model(request: pytest.FixtureRequest) -> Model:
    return Model.from_urdf(random_tree_urdf(1, 4, branching=0.4, prismatic=0.3), **request.param)


FUNCTIONS: dict[str, tuple[int, tuple[int, ...]]] = {
    "mass_matrix": (0, (2,)),
    "dynamics_terms": (1, (2, 2, 1, 1)),
    "momentum_terms": (1, (1, 1, 1)),
    "gravity_torque": (0, (1,)),
    "christoffel_symbols": (0, (3,)),
    "inverse_dynamics": (2, (1,)),
    "forward_dynamics": (2, (1,)),
    "slotine_li_torque": (3, (1,)),
}
"""Each function, the vectors it takes beside q, and the number of axes of its results."""


def test_equals_the_plain_functions(model: Model) -> None:
    rng = np.random.default_rng(0)
    q, vectors = rng.normal(size=model.nq), rng.normal(size=(3, model.nv))
    frozen = dynamics.freeze(model)
    for name, (count, axes) in FUNCTIONS.items():
        given = (q, *vectors[:count])
        expected = getattr(dynamics, name)(model, *given)
        results = [np.full((model.nv,) * n, np.nan) for n in axes]
        getattr(frozen, name)(*given, *results)
        references = expected if isinstance(expected, tuple) else (expected,)
        for result, reference in zip(results, references, strict=True):
            error = np.abs(result - reference).max()
            assert error <= ROUNDING * max(np.abs(reference).max(), 1.0), name


def test_two_models_do_not_mix() -> None:
    one, other = (Model.from_urdf(random_tree_urdf(seed, 3)) for seed in (7, 8))
    q = np.array([0.1, 0.2, 0.3])
    for m in (one, other, one):
        M = np.empty((3, 3))
        dynamics.freeze(m).mass_matrix(q, M)
        np.testing.assert_allclose(M, dynamics.mass_matrix(m, q), rtol=1e-12)
