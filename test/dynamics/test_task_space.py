"""Dynamics in task space: equation of motion, Lynch & Park's form, Pinocchio.

ROUNDOFF: Lambda is an inverse. The states here have singular values down to some 1e-3 of the
largest, whose squares cost at worst six of sixteen digits; the error is far below 1e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from robots import LOCKED, PinocchioTwin, urdf_path

from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.errors import InputError

from .helpers import Array, random_q, relative

ROUNDOFF = 1e-8
POSITION = (3, 4, 5)

ROBOTS: dict[str, tuple[str, bool]] = {
    "panda": ("panda_hand", False),
    "ur5": ("tool0", False),
    "talos": ("gripper_left_base_link", True),
    "go2": ("FL_foot", True),
}


def published(name: str) -> tuple[Model, str]:
    link, floating = ROBOTS[name]
    source = urdf_path(name)
    return Model.from_urdf(source, locked=LOCKED.get(name, {}), floating_base=floating), link


def random_state(model: Model, seed: int) -> tuple[Array, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv), rng


@pytest.mark.parametrize("name", ["panda", "talos"])
@pytest.mark.parametrize("rows", [POSITION, (5, 0)])
def test_equation_of_motion(name: str, rows: Any) -> None:
    """J_barᵀ tau = Lambda V_dot + eta for every torque, V_dot = J a + J_dot v of that torque."""
    model, link = published(name)
    q, v, rng = random_state(model, 1)
    tau = dynamics.inverse_dynamics(model, q, v, rng.uniform(-2.0, 2.0, model.nv))
    terms = dynamics.task_space_terms(model, q, v, link, rows=rows)
    J = dynamics.frame_jacobian(model, q, link)[list(rows)]
    J_dot = dynamics.frame_jacobian_rate(model, q, v, link)[list(rows)]
    V_dot = J @ dynamics.forward_dynamics(model, q, v, tau) + J_dot @ v
    F = terms.J_bar.T @ tau
    assert relative(terms.Lambda @ V_dot + terms.eta, F, [F, terms.eta]) < ROUNDOFF
    assert relative(J @ terms.J_bar, np.eye(len(rows))) < ROUNDOFF
    assert np.array_equal(terms.Lambda, terms.Lambda.T)
    assert np.array_equal(terms.Lambda, dynamics.task_space_inertia(model, q, link, rows=rows))


# --- Against Pinocchio ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROBOTS)
def test_against_pinocchio(name: str) -> None:
    """Lambda from the inverse of the KKT matrix; mu and p from the force of a constraint."""
    pin = pytest.importorskip("pinocchio")
    model, link = published(name)
    twin = PinocchioTwin(
        urdf_path(name),
        model.joint_names,
        locked=LOCKED.get(name, {}),
        floating_base=model.floating_base,
    )
    frame, angular_first = twin.model.getFrameId(link), [3, 4, 5, 0, 1, 2]
    for seed in range(3):
        q, v, rng = random_state(model, seed)
        q_, v_, still = twin.q(q), twin.v(v), np.zeros(twin.model.nv)
        pin.computeJointJacobiansTimeVariation(twin.model, twin.data, q_, v_)
        pin.updateFramePlacements(twin.model, twin.data)
        J, J_dot = (
            of(twin.model, twin.data, frame, pin.LOCAL_WORLD_ALIGNED)[angular_first]
            for of in (pin.getFrameJacobian, pin.getFrameJacobianTimeVariation)
        )
        for damping in (0.0, 0.2):
            kkt = pin.computeKKTContactDynamicMatrixInverse(
                twin.model, twin.data, q_, J, damping**2
            )
            terms = dynamics.task_space_terms(model, q, v, link, damping=damping)
            assert relative(terms.Lambda, -kkt[-6:, -6:]) < 1e-10
        V_dot = rng.normal(size=6)
        pin.forwardDynamics(twin.model, twin.data, q_, v_, still, J, J_dot @ v_ - V_dot, 0.0)
        force = twin.data.lambda_c.copy()
        terms = dynamics.task_space_terms(model, q, v, link)
        assert relative(terms.Lambda @ V_dot + terms.eta, force) < 1e-10


# --- Near and at singularities -------------------------------------------------------------------


def stretched_panda() -> tuple[Model, Array]:
    """All axes of the wrist and of the arm line up at zero."""
    model = Model.from_urdf(urdf_path("panda"), locked=LOCKED["panda"])
    return model, np.zeros(model.nq)


def test_singular_states_are_refused_with_the_singular_value() -> None:
    model, q = stretched_panda()
    with pytest.raises(InputError) as caught:
        dynamics.task_space_inertia(model, q, "panda_hand")
    message = str(caught.value)
    assert message.startswith(
        "the task-space inertia of link 'panda_hand' is infinite: the smallest"
    )
    assert "singular value of its Jacobian, weighted by the mass matrix, is" in message
    assert "Give damping=" in message
    bent = q.copy()
    bent[[1, 3, 5]] = 0.3, -1.5, 1.8
    several = np.array([bent, q, bent])
    with pytest.raises(InputError, match="is infinite in state 1 of 3"):
        dynamics.task_space_terms(model, several, np.zeros(model.nv), "panda_hand")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"link": "panda_link0"}, "It does not move at all in these rows; give another link"),
        ({"link": "elbw"}, "no link 'elbw'; links are panda_link0, "),
        ({"rows": (3, 3)}, r"rows are \[3, 3\]; give some of 0 to 5, each once"),
        ({"damping": -0.1}, "damping is -0.1; it must not be negative"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], words: str) -> None:
    model, q = stretched_panda()
    with pytest.raises(InputError, match=words):
        dynamics.task_space_inertia(model, q, **{"link": "panda_hand", **arguments})
