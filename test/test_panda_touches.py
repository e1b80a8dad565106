"""Touches of a real Panda at rest, with a hand that its description lacks, after a tare.

The recordings are not part of the package.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.observers import MomentumObserver
from rbd_control.identification import CalibratedParameters
from rbd_control.parameters import read_parameter_file

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TOUCHES = DATA / "panda_touches"
CONFIG = Path(__file__).resolve().parents[1] / "config" / "panda_franka.yaml"
CLOCK = 0.06
"""Largest offset of the clock of the labels [s]."""
TARE_GAIN = 20.0
"""Gain of the observer whose mean residual before the first touch is the tare [1/s]."""
TARE = (0.25, 0.1)
"""Time for which this observer settles, and time before the first label that is left out [s]."""

pytestmark = pytest.mark.skipif(not TOUCHES.is_dir(), reason="../shared/data is absent")


def _calibrated() -> CalibratedParameters:
    values = read_parameter_file(CONFIG, "contact_detector")
    known = {name: values[name] for name in values if hasattr(CalibratedParameters, name)}
    return CalibratedParameters.from_mapping(known)


def _tared(parameters: DetectorParameters, bias: np.ndarray) -> DetectorParameters:
    """Return the parameters with the tare as an offset of the friction."""
    model = parameters.friction_model
    offset = parameters.for_joints("friction_offset", bias.size) if model != "none" else 0.0
    if model == "none":
        zero = {"friction_coulomb": (0.0,), "friction_viscous": (0.0,)}
        parameters = replace(parameters, friction_model="coulomb_viscous", **zero)  # type: ignore[arg-type]
    return replace(parameters, friction_offset=tuple(offset - bias))


def _score(parameters: DetectorParameters, model: Model, name: str) -> tuple[int, int, int]:
    """Return the numbers of touches, of found touches and of false contacts."""
    columns = np.genfromtxt(TOUCHES / f"{name}.csv", delimiter=",", skip_header=1)
    labels = np.genfromtxt(TOUCHES / f"{name}_labels.csv", delimiter=",", skip_header=1)
    later = np.diff(np.maximum.accumulate(columns[:, 0]), prepend=-1.0) > 0.0
    t, q, v, tau = np.split(columns[later], (1, 8, 15), axis=1)
    t = t[:, 0]
    observer = MomentumObserver(model, TARE_GAIN, parameters.friction(model.nv))
    quiet = (t > TARE[0]) & (t < labels[0, 0] - TARE[1])
    bias = observer.run(t, q, v, tau)[quiet].mean(axis=0)
    block = ContactDetector(model, _tared(parameters, bias)).update_block(t, q, v, tau)
    onsets = np.array([event.detected for _, event in block.events if event.phase == "onset"])
    begin, end = labels[:, 0, None] - CLOCK, labels[:, 1, None] + CLOCK
    matches = (onsets >= begin) & (onsets <= end)
    found = int(matches.any(axis=1).sum())
    return len(labels), found, onsets.size - int(matches.any(axis=0).sum())


@pytest.mark.parametrize(("kind", "least"), [("calibrated", 0.96), ("default", 0.83)])
def test_touches_at_rest(kind: str, least: float) -> None:
    """At least 115, and without a calibration 100, of 120 touches are found, none is false."""
    model = Model.from_urdf((DATA / "panda_arm.urdf").read_text(encoding="utf-8"))
    parameters = DetectorParameters()
    if kind == "calibrated":
        parameters = _calibrated()
        model = parameters.corrected(model)
    names = sorted(path.stem for path in TOUCHES.glob("touch_??.csv"))
    scores = np.array([_score(parameters, model, name) for name in names])
    touches, found, false = scores.sum(axis=0)
    assert false == 0
    assert found >= least * touches
    # A touch that only a change shows is found as well.
    without = replace(parameters, rest_threshold=(1e4,))
    assert found > sum(_score(without, model, name)[1] for name in names)
