"""The table of hard conditions: two of its rows, on short motions."""

from __future__ import annotations

import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.conditions.__main__ import chosen
from bench.conditions.rows import ROWS
from bench.conditions.study import Calibrated, Outcome, Plan, calibration, run
from bench.conditions.tables import is_harmless, sheet, verdict

PLAN = Plan(calibration=30.0, before=2.0, free=10.0, pushes=4)
SEED = 1


@pytest.fixture(scope="module")
def known() -> Calibrated:
    urdf_path("panda")
    return calibration("panda", ROWS[0], PLAN, SEED)


@pytest.fixture(scope="module")
def nominal(known: Calibrated) -> Outcome:
    return run("panda", ROWS[0], known, PLAN, SEED)


def test_the_nominal_arm_is_harmless_for_both_detectors(nominal: Outcome) -> None:
    assert is_harmless(nominal, nominal)
    for judged in (nominal.product, nominal.plain):
        assert judged is not None
        assert (judged.early, judged.late, judged.found) == (0, 0, 4)
        # A push of 20 N on an arm of this size is found within some samples.
        assert judged.delay < 0.02


def test_a_payload_raises_the_flag_and_check_names_it(known: Calibrated, nominal: Outcome) -> None:
    row = next(row for row in ROWS if row.name == "payload 2 kg")
    outcome = run("panda", row, known, PLAN, SEED)
    assert "check" in outcome.named_by()
    assert verdict(outcome, nominal) == "named"
    for judged in (outcome.product, outcome.plain):
        assert judged is not None
        assert judged.early_share > 0.9
    assert "payload 2 kg" in sheet("panda", [nominal, outcome]).markdown()


def test_rows_are_chosen_by_words_of_their_name_beside_the_nominal_one() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [names[k] for k in chosen(["2 kg"])] == ["nominal", "payload 2 kg"]
    ramps = ["nominal", "friction ramp to -30 % in 10 min", "friction ramp to +30 % in 10 min"]
    assert [names[k] for k in chosen(["ramp"])] == ramps
    assert [names[k] for k in chosen(["Friction min"])] == ramps
    assert chosen(["no such row"]) == []
