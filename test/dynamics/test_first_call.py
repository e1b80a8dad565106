"""The first call of a dynamics function, which compiles its kernel, in several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numba
import numpy as np
from robots import two_joint_urdf

from rbd_control.dynamics import Model
from rbd_control.dynamics.batches import Kernels, evaluate, new_vector

THREADS = 4


def test_several_threads_may_make_the_first_call() -> None:
    """The thread that compiles ends further compilation, for which the others still wait."""

    @numba.njit
    def doubled(_model: Any, q: Any, result: Any) -> bool:
        for i in range(q.shape[0]):
            result[i] = 2.0 * q[i]
        return True

    model = Model.from_urdf(two_joint_urdf())
    kernels = Kernels(doubled, new_results=new_vector)
    start = Barrier(THREADS)

    def call(number: int) -> list[float]:
        start.wait()
        (result,) = evaluate(kernels, model, None, np.full(model.nq, float(number)))
        return [float(x) for x in result]

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(call, range(THREADS)))
    assert results == [[2.0 * number] * model.nq for number in range(THREADS)]
    assert kernels.is_ready
    assert len(doubled.signatures) == 1
