"""For any input the detector neither fails nor publishes numbers that are not finite.

The only exception that it raises is InputError, for arrays of the wrong shape, numbers that are not
finite and stamps that do not increase; its state then does not change.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, ParameterError
from rbd_control.estimation import ContactDetector, Detection, DetectorParameters
from rbd_control.simulation import arm7_urdf

MODEL = Model.from_urdf(arm7_urdf())
Q = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
G = gravity_torque(MODEL, Q)
DT = 0.002
BASE = DetectorParameters(
    contact_threshold=(2.0,),
    collision_threshold=(20.0,),
    friction_model="stribeck",
    settling_time=0.02,
    onset_debounce=0.0,
    release_debounce=0.01,
    residual_covariance=tuple(0.04 * np.eye(7).ravel()),
)

NUMBER = st.one_of(
    st.floats(-10.0, 10.0),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1e30, -1e80, 1e150, 1e200, -1e308, 5e-324, 1e9, 1e6, inf, nan]),
)
CHANGE = st.tuples(st.sampled_from(["q", "v", "tau"]), st.integers(0, 6), NUMBER)
STEP = st.sampled_from([DT] * 8 + [1e-12, 5e-324, 0.09, 0.11, 5.0, 1e9, 1e300, 0.0, -1.0, nan, inf])
SAMPLE = st.tuples(STEP, st.lists(CHANGE, max_size=3), st.sampled_from(["all"] * 9 + ["v", "tau"]))
PARAMETER = st.tuples(
    st.sampled_from(
        [
            "friction_coulomb",
            "friction_viscous",
            "friction_offset",
            "friction_stribeck",
            "friction_velocity_scale",
            "friction_stribeck_velocity",
            "effort_gain",
            "observer_gain",
            "torque_noise",
            "momentum_noise",
            "torque_drift",
            "contact_threshold",
            "threshold_speed",
            "threshold_acceleration",
            "reversal_speed",
        ]
    ),
    st.sampled_from([0.0, 1e-308, 1e-30, 1.0, -1.0, 1e6, 1e23, -1e23, 1e150, 1e308]),
)
OBSERVER = st.sampled_from(["momentum", "second_order", "kalman"])
ORDER = st.one_of(
    SAMPLE,
    st.sampled_from(["tare", "reset", "payload"]),
    st.tuples(st.just("set"), OBSERVER, st.lists(PARAMETER, max_size=2)),
)


def sample(
    stamp: float, changes: Sequence[tuple[str, int, float]], missing: str
) -> tuple[float, np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """One sample at rest with some numbers changed: stamp, q, v and tau."""
    values = {
        "q": Q.copy(),
        "v": np.zeros(7),
        "tau": G + 1e-3 * np.sin(1e3 * np.clip(stamp, 0, 1e6)),
    }
    for name, i, number in changes:
        values[name][i] = number
    if missing != "all":
        values[missing] = None
    return stamp, values["q"], values["v"], values["tau"]


def check(found: Detection) -> None:
    """What must hold of every detection."""
    assert np.isfinite(found.residual).all()
    assert found.valid == (found.reason == "")
    assert not (found.contact and not found.valid)
    assert found.force is None or np.isfinite(found.force).all()
    if found.event is not None:
        assert np.isfinite(found.event.onset)
        assert np.isfinite(found.event.peak_torque)


@settings(max_examples=60, deadline=None)
@given(st.lists(ORDER, min_size=1, max_size=40))
def test_no_sequence_of_calls_makes_it_fail(orders: list[Any]) -> None:
    detector = ContactDetector(MODEL, BASE)
    stamp = 1.0
    for k in range(15):
        stamp = 1.0 + k * DT
        check(detector.update(*sample(stamp, [], "all")))
    for order in orders:
        if order == "tare":
            with suppress(InputError):
                assert np.isfinite(detector.tare()).all()
        elif order == "reset":
            detector.reset()
        elif order == "payload":
            detector.set_model(MODEL.with_payload("link_7", 1.0, (0, 0, 0.1), np.zeros((3, 3))))
        elif order[0] == "set":
            try:
                changes = {name: (value,) for name, value in order[2]}
                detector.set_parameters(replace(BASE, observer=order[1], **changes))
            except ParameterError:
                detector.set_parameters(BASE)
        else:
            step, changes, missing = order
            now = stamp + step
            try:
                found = detector.update(*sample(now, changes, missing))
            except InputError:
                continue
            check(found)
            stamp = now


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([DT] * 6 + [1e-12, 0.09, 0.3]),
            st.lists(
                st.tuples(
                    st.sampled_from(["q", "v", "tau"]),
                    st.integers(0, 6),
                    st.sampled_from([0.0, 0.5, 3.0, -40.0, 300.0, 1e4, 1e30, 1e200, -1e308]),
                ),
                max_size=2,
            ),
        ),
        min_size=5,
        max_size=60,
    ),
    st.lists(st.integers(1, 58), max_size=5, unique=True),
    OBSERVER,
)
def test_blocks_of_anything_are_judged_like_samples(
    steps: list[Any], cuts: list[int], observer: str
) -> None:
    """The verdicts are equal to the last bit, wherever the blocks are divided."""
    parameters = replace(BASE, observer=observer)
    stamps = 1.0 + np.cumsum([DT] * 20 + [step for step, _ in steps])
    changes = [[]] * 20 + [change for _, change in steps]
    rows = [sample(t, c, "all") for t, c in zip(stamps, changes, strict=True)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    keep = np.diff(columns[0], prepend=-np.inf) > 0.0  # 1e-12 may be lost in rounding
    columns = [column[keep] for column in columns]
    single, whole = (ContactDetector(MODEL, parameters) for _ in range(2))
    expected = [single.update(*row) for row in zip(*columns, strict=True)]
    count = len(expected)
    edges = sorted({0, *(c for c in cuts if c < count), count})
    blocks = [
        whole.update_block(*(column[a:b] for column in columns))
        for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    for name, values in (
        ("residual", [d.residual for d in expected]),
        ("reason", [d.reason_code for d in expected]),
        ("dropped", [d.dropped_code for d in expected]),
        ("contact", [d.contact for d in expected]),
    ):
        np.testing.assert_array_equal(np.concatenate([getattr(b, name) for b in blocks]), values)
    for found in expected:
        check(found)


@pytest.mark.parametrize("stamp", [nan, 0.5])
def test_a_stamp_that_is_no_later_time_is_refused(stamp: float) -> None:
    detector = ContactDetector(MODEL, BASE)
    detector.update(*sample(1.0, [], "all"))
    with pytest.raises(InputError, match="stamp"):
        detector.update(*sample(stamp, [], "all"))
    assert not detector.update(*sample(1.0 + DT, [], "all")).dropped
