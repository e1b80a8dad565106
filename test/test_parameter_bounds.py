"""Every number that can be set has physical bounds, and works at both."""

from __future__ import annotations

import importlib.util
import math
import pkgutil
from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Any, TypeVar

import numpy as np
import pytest
from control_loop import HOME, Loop

import rbd_control
from rbd_control.control import ControllerParameters
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.errors import InputError, ParameterError, RbdControlError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.parameters import Parameters
from rbd_control.simulation import arm7_urdf

T = TypeVar("T")

MODEL = Model.from_urdf(arm7_urdf())
N = MODEL.nv


def is_numeric(item: Field[Any]) -> bool:
    """Return whether a parameter holds numbers."""
    if item.metadata["per_joint"] or item.metadata["joint_matrix"]:
        return True
    if isinstance(item.default, tuple):
        return bool(item.metadata["unit"])
    return isinstance(item.default, (int, float)) and not isinstance(item.default, bool)


def bounds(item: Field[Any]) -> tuple[float, float]:
    """Return the least and the largest value that a parameter admits."""
    meta = item.metadata
    low = meta["lower"]
    if meta["above"] >= low:
        # What somebody may set who wants nearly nothing: a double knows much smaller ones.
        low = meta["above"] + 1e-6 * (meta["upper"] - meta["above"])
    whole = isinstance(item.default, int)
    return (math.ceil(low), math.floor(meta["upper"])) if whole else (low, meta["upper"])


def classes() -> set[type[Parameters]]:
    """Return all parameter classes of the package."""
    has_ros = importlib.util.find_spec("rclpy") is not None
    for module in pkgutil.walk_packages(rbd_control.__path__, "rbd_control."):
        # What launch files share needs the launch system, which not every ROS 2 has.
        if module.name != "rbd_control.ros.launching" and (
            has_ros
            or not module.name.startswith(
                ("rbd_control.live", "rbd_control.nodes", "rbd_control.ros")
            )
        ):
            importlib.import_module(module.name)
    found: set[type[Parameters]] = set()
    new: set[type[Parameters]] = {Parameters}
    while new:
        new = {child for kind in new for child in kind.__subclasses__()} - found
        found |= new
    return {kind for kind in found if kind.__module__.startswith("rbd_control")}


def test_every_number_of_every_node_has_finite_bounds() -> None:
    checked = set()
    for kind in classes():
        for item in filter(is_numeric, fields(kind)):
            meta = item.metadata
            low = max(meta["lower"], meta["above"])
            assert math.isfinite(low), (kind, item.name)
            assert math.isfinite(meta["upper"]), (kind, item.name)
            assert low < meta["upper"], (kind, item.name)
            assert max(map(abs, bounds(item))) <= 1e9 or isinstance(item.default, int), item.name
            checked.add(item.name)
    assert len(checked) > 100
    assert {"listeners", "friction_f2", "payload_inertia", "moving_ratio", "seed"} <= checked


@pytest.mark.parametrize("kind", sorted(classes(), key=lambda kind: kind.__name__))
def test_values_beyond_the_bounds_are_refused_with_both_bounds(kind: type[Parameters]) -> None:
    for item in filter(is_numeric, fields(kind)):
        low, high = bounds(item)
        whole = isinstance(item.default, int)
        beyond = [low - 1, high + 1, 10**400] if whole else [math.nan, math.inf, -math.inf, 1e308]
        if not whole:
            beyond += [math.nextafter(high, math.inf), "1e400", True]
            least = math.nextafter(item.metadata["lower"], -math.inf)
            beyond.append(max(least, item.metadata["above"]))
        for value in beyond:
            several = isinstance(item.default, tuple)
            given = [value] * max(len(item.default), 1) if several else value
            with pytest.raises(ParameterError, match=item.name) as caught:
                kind(**{item.name: given})
            if isinstance(value, float) and math.isfinite(value):
                assert str(item.metadata["upper"]) in str(caught.value)


def at_bounds(kind: type[Parameters]) -> list[tuple[str, float]]:
    """Return each number of a class with each of its bounds."""
    return [(i.name, value) for i in filter(is_numeric, fields(kind)) for value in bounds(i)]


def accepted(make: Callable[[], T]) -> T | None:
    """Return the result of ``make``; None if it refuses a combination of values."""
    try:
        return make()
    except RbdControlError:
        return None


def value_of(kind: type[Parameters], name: str, value: float) -> Any:
    default = next(item.default for item in fields(kind) if item.name == name)
    return (value,) * max(len(default), 1) if isinstance(default, tuple) else value


# The detector ------------------------------------------------------------------------------------

FRICTION = {
    "friction_f1": "sigmoid",
    "friction_f2": "sigmoid",
    "friction_f3": "sigmoid",
    "friction_coulomb": "stribeck",
    "friction_viscous": "stribeck",
    "friction_offset": "stribeck",
    "friction_velocity_scale": "stribeck",
    "friction_stribeck": "stribeck",
    "friction_stribeck_velocity": "stribeck",
}
KALMAN = ("torque_noise", "momentum_noise", "torque_drift")
COEFFICIENTS: dict[str, Any] = {
    "friction_coulomb": (1.0,),
    "friction_stribeck": (1.0,),
    "friction_f1": (1.0,),
}


def detector_at(name: str, value: float) -> DetectorParameters:
    """Return parameters with one at its bound, and with the others that make it effective."""
    changes: dict[str, Any] = {"settling_time": 0.01, "onset_debounce": 0.002, **COEFFICIENTS}
    changes["friction_model"] = FRICTION.get(name, "none")
    changes["observer"] = (
        "kalman" if name in KALMAN else "second_order" if name == "observer_damping" else "momentum"
    )
    if name in ("contact_threshold", "statistic_threshold"):
        changes["collision_threshold"] = (1e6,)
    if name == "collision_threshold":
        changes["contact_threshold"] = (1e-6,)
    changes[name] = value_of(DetectorParameters, name, value)
    if name == "residual_covariance":
        changes[name] = tuple((value * np.eye(N)).ravel())
    return replace(DetectorParameters(), **changes)


@pytest.mark.parametrize(("name", "value"), at_bounds(DetectorParameters))
def test_the_detector_at_a_bound(name: str, value: float) -> None:
    """For an arm that swings and is pushed hard, all outputs are finite."""
    detector = accepted(lambda: ContactDetector(MODEL, detector_at(name, value)))
    # The rest would leave a body without mass, say.
    refused = name.startswith(("mass_", "com_")) or name == "residual_covariance"
    assert detector or refused
    if detector:
        swing_and_push(detector)


def swing_and_push(detector: ContactDetector) -> None:
    rate = np.linspace(2.0, 3.0, N)
    for k in range(120):
        t = 0.001 * k
        q, v = 0.4 * np.sin(rate * t), 0.4 * rate * np.cos(rate * t)
        push = 1000.0 if 60 < k < 100 else 0.0
        tau = inverse_dynamics(MODEL, q, v, -(rate**2) * q) + push
        detection = detector.update(1.0 + t, q, v, tau)
        assert np.isfinite(detection.residual).all()
        assert detection.force is None or np.isfinite(detection.force).all()
        if detection.event:
            assert np.isfinite(detection.event.onset)
            assert np.isfinite(detection.event.peak_torque)


# The controller ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value"), at_bounds(ControllerParameters))
def test_the_controller_at_a_bound(name: str, value: float) -> None:
    """Moving and touched: the torque is finite and within the limits of the motors."""
    changes: dict[str, Any] = {**COEFFICIENTS, "friction_model": FRICTION.get(name, "none")}
    if "adapt" in name or "learning" in name or "payload" in name:
        changes |= {"adaptive": True, "friction_model": "coulomb_viscous"}
        changes["friction_viscous"] = (1.0,)
    if "tank" in name:
        changes["tank_capacity"] = 1.0
    if name == "overspeed_factor":
        changes["implausible_speed"] = 1000.0
    if name in ("bandwidth", "damping_rate"):  # gains that a loop with delay refuses
        changes |= {"resonance": 0.0, "loop_delay": 0.0}
    if name == "loop_delay":
        changes["damping_rate"] = 1.0
    changes[name] = value_of(ControllerParameters, name, value)
    if name == "compensated_gravity":
        changes |= {"gravity_compensated": True, name: (value, value, value)}
    if name == "implausible_speed" and value < ControllerParameters().overspeed_factor:
        with pytest.raises(ParameterError, match="overspeed_factor"):
            ControllerParameters(**changes)
        return
    if name == "torque_share" and value < 1.0:  # not enough to carry the arm
        with pytest.raises(InputError, match="too heavy"):
            Loop(MODEL, **changes)
        return
    if name == "loop_delay" and value > 0.0:  # too late for the stiff gains
        with pytest.raises(InputError, match="loop_delay 200 ms"):
            Loop(MODEL, **changes)
        return
    loop = Loop(MODEL, **changes)
    controller = loop.controller
    limit = MODEL.effort_limit * (1.0 + 1e-12)
    if name == "compensated_gravity":  # the limits apply to the sum with what the arm adds
        limit = np.full(N, np.inf)

    def check(command: Any) -> None:
        assert np.isfinite(command.torque).all()
        assert (np.abs(command.torque) <= limit).all()

    loop.run(0.01, check)
    for target in (0.05, -0.02):
        accepted(lambda target=target: loop.follow(HOME + target, 0.3))
        loop.run(0.05, check)
    controller.set_contact_force(MODEL.joint_links[-1], np.array((0.0, 0.0, 5.0)))
    controller.contact(True)
    loop.run(0.05, check)
    controller.modes.fault("a test")
    loop.run(0.02, check)


# The arm, and what it carries --------------------------------------------------------------------
