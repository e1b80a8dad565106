"""Large batches are split over threads; the results are equal to the last bit."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import Model, batches, dynamics_terms, forward_dynamics, inverse_dynamics

COUNT = 3 * batches.STATES_PER_THREAD + 7


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the numbers of parts that thread pools received."""
    parts = []

    class Pool(ThreadPoolExecutor):
        def map(self, function: Callable[..., Any], items: Sequence[Any]) -> Any:
            parts.append(len(items))
            return super().map(function, items)

    monkeypatch.setattr(batches, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(batches.os, "cpu_count", lambda: 3)
    return parts


def test_split_equals_whole(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.from_urdf(random_tree_urdf(2, 3))
    rng = np.random.default_rng(0)
    q, v, x = rng.normal(size=(3, COUNT, model.nv))
    wrenches = {model.link_names[-1]: rng.normal(size=(COUNT, 6))}

    def everything() -> list[np.ndarray]:
        return [
            *dynamics_terms(model, q, v),
            inverse_dynamics(model, q, v, x, wrenches),
            forward_dynamics(model, q, v, x, wrenches),
        ]

    split = everything()
    assert calls == [3, 3, 3]
    monkeypatch.setattr(batches.os, "cpu_count", lambda: 1)
    for part, whole in zip(split, everything(), strict=True):
        np.testing.assert_array_equal(part, whole)
    assert len(calls) == 3
