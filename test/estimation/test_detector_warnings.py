"""The detector warns of settings that disable detection, and not of good settings."""

import re
from typing import Any

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters, detector_warnings
from rbd_control.estimation.detector_warnings import rate_warning

GOOD: dict[str, Any] = {"contact_threshold": (1.0,), "collision_threshold": (20.0,)}
HIGH: dict[str, Any] = {"contact_threshold": (199.0,), "collision_threshold": (300.0,)}
COVARIANCE = tuple(np.eye(7).ravel() * 0.1)


def test_good_settings_are_not_complained_of(model: Model) -> None:
    assert detector_warnings(DetectorParameters(**GOOD), model) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {
                "contact_threshold": (1.0, 1.0, 1.0, 900.0, 1.0, 1.0, 1.0),
                "collision_threshold": (1e3,),
            },
            "threshold of joint 'joint_4' is 900 N·m .contact_threshold., and its effort",
        ),
        (HIGH, "contact_threshold: the weakest push that is detected has 172 N .by joint"),
        (
            {**HIGH, "residual_covariance": COVARIANCE, "statistic_threshold": 600.0},
            "statistic_threshold: the weakest push that is detected has 1[0-9]{2} N, but 140 N",
        ),
        ({"observer_gain": (2.0,)}, "observer_gain: .* noticed late"),
        ({"onset_debounce": 0.1}, "a collision is over"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, dict) else "",
)
def test_settings_that_disable_detection_warn(
    model: Model, change: dict[str, Any], said: str
) -> None:
    texts = detector_warnings(DetectorParameters(**{**GOOD, **change}), model)
    assert any(re.search(said, text) for text in texts), texts


@pytest.mark.parametrize(
    ("rate", "said"),
    [
        (100.0, "come at 100 Hz, and thresholds were calibrated at 500 Hz: thresholds are raised"),
        (1000.0, "^$"),
        (340.0, "^$"),
        (740.0, "^$"),
        (np.inf, "^$"),  # unknown
    ],
)
def test_another_rate_than_in_the_calibration_warns(rate: float, said: str) -> None:
    assert re.search(said, rate_warning(1.0 / rate, DetectorParameters(calibrated_rate=500.0)))
    assert not rate_warning(1.0 / rate, DetectorParameters())


@pytest.mark.parametrize(
    "change",
    [{"contact_force_threshold": 20.0}, {"residual_covariance": COVARIANCE}],
    ids=lambda change: " ".join(change),
)
def test_a_rule_that_detects_a_push_makes_up_for_high_thresholds_of_joints(
    model: Model, change: dict[str, Any]
) -> None:
    texts = detector_warnings(DetectorParameters(**HIGH, **change), model)
    assert not any("the weakest push" in text for text in texts), texts


def test_default_thresholds_suit_no_arm_but_are_not_off(model: Model) -> None:
    assert detector_warnings(DetectorParameters(), model) == []
