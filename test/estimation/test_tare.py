"""A tare of the contact detector: what it averages, and when it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from detector_bench import DT, PARAMETERS, Bench, on_joint
from robots import urdf_path

from rbd_control.dynamics import (
    Model,
)
from rbd_control.errors import InputError


@pytest.fixture(scope="module")
def model() -> Model:
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    return Model.from_urdf(urdf_path("panda"), locked=locked)


def test_tare_takes_a_constant_error_off(model: Model) -> None:
    bench = Bench(model)
    bias = on_joint(3, 0.6)
    bench.run(3.0, bias)
    # The filter has risen to 1 - exp(-100 * 0.1) when the mean begins, and the mean lasts a second.
    np.testing.assert_allclose(bench.detector.tare(), bias, atol=1e-5)
    # The present residual is corrected as well, so there is no jump that fades.
    for detection in bench.run(0.5, bias):
        np.testing.assert_allclose(detection.residual, 0.0, atol=1e-5)


def test_a_tare_leaves_little_in_noise(model: Model) -> None:
    """It succeeds only with what has been averaged for a second, at whatever time it comes."""
    bias, rng = on_joint(3, 0.9) + on_joint(1, 5.0), np.random.default_rng(4)
    parameters = replace(PARAMETERS, contact_threshold=(10.0,), collision_threshold=(40.0,))
    for wait in (0.02, 0.5, 1.3):
        bench = Bench(model, parameters)

        def run(duration: float, bench: Bench = bench) -> None:
            for _ in range(round(duration / DT)):
                bench.run(DT, bias + rng.normal(0.0, 0.5, 7))

        run(wait)
        if wait < 1.1:  # a second after the settling time
            left = r"try again in [01]\.\d\d s" if wait > PARAMETERS.settling_time else "settling"
            with pytest.raises(InputError, match=f"cannot tare: .*{left}"):
                bench.detector.tare()
            assert not bench.detector.bias.any()
            continue
        # The mean of a second of 0.5 N·m of white noise is known to 0.5 / sqrt(1000) = 0.016 N·m;
        # 0.05 is three times that, and 1 % of the bias.
        np.testing.assert_allclose(bench.detector.tare(), bias, atol=0.05)
        with pytest.raises(InputError, match="averaged for 0.00 s"):
            bench.detector.tare()


def test_a_reset_with_clear_tare_ends_the_contact_of_a_tare(model: Model) -> None:
    """A tare in one posture is an error in another, where the residual has the other sign."""
    bench = Bench(model)
    bench.run(3.0, on_joint(1, 0.9))
    bench.detector.tare()
    assert bench.run(1.0, on_joint(1, -0.9))[-1].contact
    with pytest.raises(InputError, match=r"while there is contact.*~/reset.*clear_tare=True"):
        bench.detector.tare()
    # A restart after a jump of the clock keeps the tare, and so the contact.
    assert bench.detector.reset() is not None
    assert bench.detector.bias[1] == pytest.approx(0.9, abs=1e-5)
    assert bench.run(1.0, on_joint(1, -0.9))[-1].contact
    assert bench.detector.reset(clear_tare=True) is not None
    assert not bench.detector.bias.any()
    (*_, last) = bench.run(1.5, on_joint(1, -0.9))
    assert last.valid
    assert not last.contact
    np.testing.assert_allclose(last.residual, on_joint(1, -0.9), atol=1e-5)
    np.testing.assert_allclose(bench.detector.tare(), on_joint(1, -0.9), atol=1e-5)


def test_a_tare_wants_a_second_after_every_change(model: Model) -> None:
    bench = Bench(model)
    bench.run(2.0)
    bench.detector.set_parameters(replace(PARAMETERS, observer_gain=(50.0,)))
    with pytest.raises(InputError, match="averaged for 0.00 s"):
        bench.detector.tare()
    bench.run(1.01)
    bench.detector.set_model(model)
    with pytest.raises(InputError, match="averaged for 0.00 s"):
        bench.detector.tare()
    bench.run(0.2, on_joint(1, 5.0))
    with pytest.raises(InputError, match="while there is contact"):
        bench.detector.tare()
    bench.run(0.9)
    with pytest.raises(InputError, match=r"averaged for 0\.[67]"):  # since the release
        bench.detector.tare()
    bench.run(0.5)
    bench.run(0.2, on_joint(2, 0.9))
    with pytest.raises(InputError, match="residual of panda_joint3 still changes"):
        bench.detector.tare()
    bench.run(3.0, on_joint(2, 0.9))
    # Of the change, exp(-3) is left in the mean.
    assert bench.detector.tare()[2] == pytest.approx(0.9, rel=0.06)
