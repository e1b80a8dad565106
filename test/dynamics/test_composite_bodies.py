"""Composite bodies of J24: their inertias, inverse dynamics by them, forces across the joints.

Samples and tolerances as in ``test_spatial_operators.py``.
"""

from __future__ import annotations

from hypothesis import given

from rbd_control import dynamics
from rbd_control.dynamics import soa

from .helpers import relative
from .test_spatial_operators import ROUNDOFF, Sample, law, samples

# --- Inverse dynamics, forces --------------------------------------------------------------------


@law
@given(samples())
def test_composite_inverse_dynamics_is_newton_euler(sample: Sample) -> None:
    model, q, v, a = sample[:4]
    wrenches = {link: sample.rng.normal(size=6) for link in model.link_names}
    for pushed in (None, wrenches):
        expected = dynamics.inverse_dynamics(model, q, v, a, pushed)
        tau = dynamics.composite_inverse_dynamics(model, q, v, a, pushed)
        unit = sample.torque_unit
        assert relative(tau / unit, expected / unit) < ROUNDOFF


@law
@given(samples())
def test_interbody_forces_split_both_ways(sample: Sample) -> None:
    """force = own + outboard = composite + residual, each as the operators have it."""
    model, q, v, a, s, rng = sample
    link, wrench = model.joint_links[0], rng.normal(size=6)
    parts = dynamics.interbody_forces(model, q, v, a, {link: wrench})
    step = s.H.T(a) + s.coriolis_acceleration(v) + s.E.T(sample.upward)
    alpha = s.phi.T(step)
    bias = s.gyroscopic_force(v) - soa.link_operator(model, q, link)(wrench)
    own = s.M(alpha) + bias
    f = s.phi(own)
    residual = s.phi(bias + s.E_phi(s.R(step)))
    expected = (f, own, s.E_phi(f), s.R(alpha), residual)
    for value, reference in zip(parts, expected, strict=True):
        assert relative(value, reference[: model.nv], s.R(alpha)) < ROUNDOFF
    for first, second in ((parts.own, parts.outboard), (parts.composite, parts.residual)):
        assert relative(first + second, parts.force, s.R(alpha)) < ROUNDOFF
