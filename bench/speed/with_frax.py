"""frax, dynamics in JAX, on the CPU: M, inverse and forward dynamics, for one state or many.

frax is set up as its authors advise for the processor: double precision, one function compiled as a
whole, matrix products on one thread. JAX still divides a batch among all cores. The inputs are JAX
arrays made beforehand, and the results stay JAX arrays.
frax has neither C nor Cᵀ v, and computes C v and g as vectors.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from bench.speed.measure import CALLED_STATES, from_python
from bench.speed.mechanisms import Mechanism
from bench.speed.quantities import Contestant, Quantity, Results

QUANTITIES = (Quantity.MASS, Quantity.INVERSE, Quantity.FORWARD)

_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false",
    "--xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
)
_GRAVITY = (0.0, 0.0, 9.81, 0.0, 0.0, 0.0)
"""Acceleration of the world upwards, linear part first."""


def problem() -> str:
    """Return why frax does not take part; empty if it is installed."""
    return "" if find_spec("frax") else "install frax"


def robot_of(mechanism: Mechanism) -> Any:
    """Return the mechanism as a ``frax.Robot`` with our order of joints; configure JAX for it."""
    os.environ.setdefault("XLA_FLAGS", " ".join(_FLAGS))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the settings that it misses are set in another way
        import frax
    with TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(mechanism.bare_urdf, encoding="utf-8")
        return frax.Robot(str(path), joint_ordering=list(mechanism.model.joint_names))


def contestants(
    mechanism: Mechanism, robot: Any, quantity: Quantity
) -> tuple[Contestant, Contestant]:
    """Return two contestants: frax called for one state, and for all states at once.

    Args:
        mechanism: the mechanism, with its states.
        robot: result of :func:`robot_of`.
        quantity: one of :data:`QUANTITIES`.
    """
    import jax

    function = _function(robot, quantity)
    single, batched = jax.jit(function), jax.jit(jax.vmap(function))
    inputs = [jax.numpy.asarray(array) for array in mechanism.states.inputs(quantity)]
    count = inputs[0].shape[0]

    def called(*state: Any) -> Any:
        return single(*state).block_until_ready()

    def run(calls: int) -> float:
        batches = -(-calls // count)
        start = perf_counter()
        for _ in range(batches):
            batched(*inputs).block_until_ready()
        return (perf_counter() - start) * calls / (batches * count)

    def of_one() -> Results:
        return (np.asarray(called(*(array[0] for array in inputs))),)

    def of_batch() -> Results:
        return (np.asarray(batched(*inputs))[0],)

    rows = [list(array[:CALLED_STATES]) for array in inputs]
    return Contestant(from_python(called, (), rows), of_one), Contestant(run, of_batch)


def _function(robot: Any, quantity: Quantity) -> Callable[..., Any]:
    import jax

    if quantity is Quantity.MASS:
        return lambda q: robot.mass_matrix(q)
    if quantity is Quantity.INVERSE:
        gravity = jax.numpy.array(_GRAVITY)
        return lambda q, v, a: robot.rnea(q, v, a, gravity, None)
    return lambda q, v, tau: robot.forward_dynamics(q, v, tau, None)
