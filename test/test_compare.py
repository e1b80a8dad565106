"""`make compare` on one specimen of each arm for some seconds, and its arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")


from bench.compare import study
from bench.compare.laws import DESIRED, FIXED, REFERENCE, SLOTINE_LI, fixed, gains
from bench.compare.study import ARMS, Learning, Tracking, learn, motion, reference, track
from bench.compare.targets import outcomes
from bench.contacts.arms import arm
from rbd_control.control import SlotineLiController


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


def test_slotine_li_of_the_comparison_is_the_controller() -> None:
    of = arm("panda")
    parameters = gains(of, reference(motion(of, 0), 0.0, 1.0))
    state = list(np.random.default_rng(0).uniform(-1.0, 1.0, (5, 7)))
    ours = SlotineLiController(of.model, parameters).torque(*state)
    # Products and sums in another order.
    assert np.allclose(
        fixed(SLOTINE_LI, REFERENCE, of, parameters)(*state), ours, rtol=0.0, atol=1e-11
    )
    # With everything at rest and in place the three agree.
    still = [state[0], np.zeros(7), state[0], np.zeros(7), np.zeros(7)]
    torques = [fixed(law, DESIRED, of, parameters)(*still) for law in FIXED]
    assert np.allclose(torques[0], torques[1:], rtol=0.0, atol=1e-11)
