"""`make bench` on a robot of two links; speed itself is not tested."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")

from bench.speed import ours
from bench.speed.contest import Contest
from bench.speed.mechanisms import member
from bench.speed.quantities import Contestant, Quantity


@pytest.fixture(scope="module")
def contest() -> Contest:
    """Two links as a robot, so that M is frozen too; M alone, to compile little."""
    return Contest(
        replace(member("chain", 2), family="", joints=0), [Quantity.MASS, Quantity.GDAHJ]
    )


def test_all_compute_the_same(contest: Contest) -> None:
    # Two rotations and a few sums of numbers near one.
    assert contest.disagreement() < 1e-14
    assert contest.without_mujoco == ""


def test_who_computes_something_else_is_not_timed(
    contest: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Contestant(lambda calls: 0.0, lambda: (np.zeros((2, 2)),))
    monkeypatch.setattr(ours, "batch", lambda mechanism, quantity: nothing)
    other = Contest(contest.mechanism, [Quantity.GDAHJ])
    with pytest.raises(ValueError, match="chain 2: M by GDAHJ of ours batch differs from ours by"):
        other.disagreement()
