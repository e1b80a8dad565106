"""`make compare` on one specimen of each arm for some seconds, and its arithmetic."""

from __future__ import annotations

import pytest
from robots import urdf_path

pytest.importorskip("mujoco")


from bench.compare import study
from bench.compare.study import ARMS, Learning, Tracking, learn, track
from bench.compare.targets import outcomes


@pytest.fixture(scope="module", autouse=True)
def published() -> None:
    """Skips where the arms' descriptions are absent."""
    urdf_path(ARMS[0])


@pytest.fixture(scope="module", params=ARMS)
def results(request: pytest.FixtureRequest) -> tuple[list[Tracking], Learning]:
    with pytest.MonkeyPatch.context() as patch:
        # Dry friction of the plant creeps for some 10 s after a stop, which the first piece covers.
        patch.setattr(study, "PIECE", 12.0)
        return track(request.param, 0, 6.0), learn(request.param, 5, 15.0, 36.0)


def test_targets_on_one_specimen(results: tuple[list[Tracking], Learning]) -> None:
    """The full targets hold.

    Over five specimens and 20 s ratios spread by a third of themselves, and the medians are below
    half of their limits.
    """
    tracking, learned = results
    found = outcomes(tracking, [learned])
    assert len(found) == 9
    missed = [f"{outcome.text}: {outcome.measured:.3f}" for outcome in found if not outcome.met]
    assert not missed
    # The law itself, with friction compensated alike: no worse than its rivals.
    alike = [outcome.measured for outcome in found if outcome.limit is None]
    assert len(alike) == 4
    assert max(alike) < 1.0
