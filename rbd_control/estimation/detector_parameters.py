"""Parameters of the contact detector, for node, ``rbd-control replay`` and Python alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.estimation.observers import (
    LONGEST_DELAY,
    KalmanObserver,
    MomentumBalance,
    MomentumObserver,
    Observer,
    SecondOrderObserver,
)
from rbd_control.joint_states.plausibility import EffortPlausibilityParameters
from rbd_control.parameters import parameter
from rbd_control.robot.effort import EffortParameters
from rbd_control.robot.friction import FrictionParameters

_TORQUE = "N·m or N"

LARGEST_THRESHOLD, LARGEST_COLLISION_THRESHOLD = 1e5, 1e6
"""Largest thresholds of a joint for contact and collision [N·m or N]."""

LEAST_TORQUE_NOISE = 1e-6
"""Least standard deviation of one sample of a torque [N·m or N]."""

LEAST_VARIANCE = 1e-15
"""Least eigenvalue of a residual covariance that can still be inverted [(N·m)² or N²]."""


@dataclass(frozen=True)
class DetectorParameters(FrictionParameters, EffortParameters, EffortPlausibilityParameters):
    """Observer, friction, thresholds and timing of the contact detector.

    Per-joint parameters have one value for all joints or one for each, in the order of the joints.
    A detector replaces joint thresholds of zero by defaults from the effort limits and the reach of
    the arm (:mod:`~rbd_control.estimation.thresholds`). These defaults are no substitute
    for a calibration with contact-free recordings.

    Raises:
        ParameterError: for a value out of bounds, a collision threshold of a joint or of the
            force that does not lie above its contact threshold, an ``effort_gain`` of zero, or a
            ``residual_covariance`` that is not square, symmetric and positive definite.
    """

    HEADING = "Observer and thresholds"
    REMOVED_NAMES: ClassVar[Mapping[str, str]] = {
        "threshold_acceleration": "inertia_error and delay_error replace it, which rbd-control "
        "calibrate finds"
    }

    observer: str = parameter(
        "momentum",
        "Filter of the external torque: momentum (first order), second_order or kalman",
        choices=("momentum", "second_order", "kalman"),
        found_by_calibrate=True,
    )
    observer_gain: tuple[float, ...] = parameter(
        (50.0,),
        "Gain K_O of the observer: inverse time constant, or natural frequency of second_order; "
        "kalman uses it only to filter the motion in the thresholds, and the smallest of all "
        "joints for the time after lost samples",
        unit="1/s",
        above=0.0,
        upper=5000.0,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    velocity_delay: float = parameter(
        0.0,
        "Delay of the driver's velocity against its effort, the time constant of its velocity "
        "filter, or minus that of its effort if this is later; calibrate identifies it",
        unit="s",
        lower=-LONGEST_DELAY,
        upper=LONGEST_DELAY,
        found_by_calibrate=True,
    )
    observer_damping: float = parameter(
        1.0,
        "Damping of the filter; 1 is critical (second_order)",
        lower=0.3,
        upper=1.0,
        found_by_calibrate=True,
    )
    torque_noise: tuple[float, ...] = parameter(
        (0.1,),
        "Standard deviation of one sample of the torque, for kalman and for thresholds at a lower "
        "rate than calibrated_rate",
        unit=_TORQUE,
        lower=LEAST_TORQUE_NOISE,
        upper=1e4,
        per_joint=True,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )
    momentum_noise: tuple[float, ...] = parameter(
        (0.001,),
        "Standard deviation of one sample of the momentum: velocity noise times the inertia that "
        "the joint moves (kalman)",
        unit="N·m·s or N·s",
        lower=1e-9,
        upper=1e4,
        per_joint=True,
        expert=True,
    )
    torque_drift: tuple[float, ...] = parameter(
        (5.0,),
        "Random walk of the external torque; a larger value makes a faster observer (kalman)",
        unit="N·m/√s or N/√s",
        lower=1e-6,
        upper=1e6,
        per_joint=True,
        expert=True,
    )
    contact_threshold: tuple[float, ...] = parameter(
        (0.0,),
        "Residual above which a joint reports contact; 0: estimated from effort limit and reach",
        unit=_TORQUE,
        lower=0.0,
        upper=LARGEST_THRESHOLD,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    rest_threshold: tuple[float, ...] = parameter(
        (0.0,),
        "Change of the residual since the arm has come to rest above which a joint reports "
        "contact; 0: half of contact_threshold",
        unit=_TORQUE,
        lower=0.0,
        upper=LARGEST_THRESHOLD,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    collision_threshold: tuple[float, ...] = parameter(
        (0.0,),
        "Residual above which a contact is a collision; 0: from contact_threshold and effort limit",
        unit=_TORQUE,
        lower=0.0,
        upper=LARGEST_COLLISION_THRESHOLD,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    contact_force_threshold: float = parameter(
        0.0,
        "Force at force_link above which there is contact; 0: no force threshold",
        unit="N",
        lower=0.0,
        upper=1e5,
        compiled=True,
    )
    collision_force_threshold: float = parameter(
        0.0,
        "Force at force_link above which a contact is a collision; 0: no force threshold",
        unit="N",
        lower=0.0,
        upper=1e6,
        compiled=True,
    )
    force_link: str = parameter(
        "",
        "Link at whose origin the force of the force thresholds acts; empty: the last link",
        in_description=True,
    )
    threshold_speed: tuple[float, ...] = parameter(
        (0.0,),
        "Increase of both thresholds of a joint with its speed",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        upper=1e5,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    inertia_error: tuple[float, ...] = parameter(
        (0.0,),
        "Relative error of the inertia that a joint moves: both thresholds grow by this share of "
        "the rate of its momentum, beyond covered_error",
        lower=0.0,
        upper=10.0,
        per_joint=True,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )
    delay_error: float = parameter(
        0.0,
        "Error of velocity_delay: both thresholds grow by the change of the motor torque within "
        "this time, beyond covered_error, and a joint counts as reversing this time earlier",
        unit="s",
        lower=0.0,
        upper=1.0,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )
    covered_error: tuple[float, ...] = parameter(
        (0.0,),
        "Torque that inertia_error, effort_gain_error and delay_error explain in the motions of "
        "the calibration, which contact_threshold covers",
        unit=_TORQUE,
        lower=0.0,
        upper=LARGEST_THRESHOLD,
        per_joint=True,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )
    calibrated_rate: float = parameter(
        0.0,
        "Rate of the joint states in the calibration, whose thresholds cover the torque between "
        "samples at this rate; at a lower one thresholds grow with it; 0: not calibrated",
        unit="Hz",
        lower=0.0,
        upper=1e5,
        expert=True,
        found_by_calibrate=True,
        compiled=True,
    )
    moving_ratio: tuple[float, ...] = parameter(
        (1.0,),
        "Share of contact_threshold that applies while the joint moves, away from reversals",
        above=0.0,
        upper=1.0,
        per_joint=True,
        found_by_calibrate=True,
        compiled=True,
    )
    reversal_speed: tuple[float, ...] = parameter(
        (0.02,),
        "Speed below which a joint is at rest or reverses, and the full contact_threshold applies",
        unit="rad/s or m/s",
        lower=0.0,
        upper=100.0,
        per_joint=True,
        expert=True,
        compiled=True,
    )
    residual_covariance: tuple[float, ...] = parameter(
        (),
        "Covariance of the residuals without contact, row by row; empty: thresholds of single "
        "joints only",
        unit="(N·m)² or N²",
        lower=-1e8,
        upper=1e8,
        joint_matrix=True,
        found_by_calibrate=True,
    )
    statistic_threshold: float = parameter(
        8.0,
        "Length of the residual, in standard deviations of residual_covariance, above which there "
        "is contact",
        lower=1e-3,
        upper=1e6,
        found_by_calibrate=True,
        compiled=True,
    )
    statistic_speed: float = parameter(
        0.0,
        "Increase of statistic_threshold with the speed of the fastest joint",
        unit="s/rad or s/m",
        lower=0.0,
        upper=1e6,
        found_by_calibrate=True,
        compiled=True,
    )
    release_ratio: float = parameter(
        0.7,
        "Hysteresis: a contact can end when every residual is below this share of its threshold",
        lower=0.05,
        upper=1.0,
        expert=True,
        compiled=True,
    )
    onset_debounce: float = parameter(
        0.002,
        "Time the residual must stay above a threshold before contact is reported",
        unit="s",
        lower=0.0,
        upper=1.0,
        found_by_calibrate=True,
        compiled=True,
    )
    release_debounce: float = parameter(
        0.15,
        "Time the residuals must stay below their release levels before the contact ends",
        unit="s",
        lower=0.0,
        upper=10.0,
        expert=True,
        compiled=True,
    )
    settling_time: float = parameter(
        0.1,
        "Time after a start or restart of the observer before its verdict is valid",
        unit="s",
        lower=0.0,
        upper=10.0,
        found_by_calibrate=True,
        compiled=True,
    )
    maximum_gap: float = parameter(
        0.1,
        "Longest time between samples; after a longer gap the observer restarts",
        unit="s",
        above=0.0,
        upper=10.0,
        expert=True,
        compiled=True,
    )
    saturation_ratio: float = parameter(
        1.0,
        "Share of a joint's effort limit from which its torque counts as saturated: then, and for "
        "settling_time afterwards, the detector does not report 'no contact'",
        above=0.0,
        upper=1000.0,
        expert=True,
    )
    check_effort_kind: bool = parameter(
        True,
        "Give no verdict while the efforts refute effort_kind; false: give verdicts anyway",
    )
    follow_friction: bool = parameter(
        True,
        "Follow slow changes of friction and bias in motion without contact; the thresholds cover "
        "what is uncertain. Without configured friction nothing is followed",
    )
    force_uncertainty: float = parameter(
        20.0,
        "Largest standard deviation of an estimated force; above it the force is not observable",
        unit="N",
        lower=1e-6,
        upper=1e6,
        expert=True,
        compiled=True,
    )

    tool_frame: str = parameter(
        "",
        "Link in whose frame the wrench at the tool is estimated, about its origin; empty: no "
        "estimate",
        live=False,
        in_description=True,
    )
    tool_wrench_prior_force: float = parameter(
        30.0,
        "Prior standard deviation of each force component at tool_frame; a smaller value damps "
        "more near singularities",
        unit="N",
        lower=1e-3,
        upper=1e5,
        expert=True,
    )
    tool_wrench_prior_moment: float = parameter(
        5.0,
        "Prior standard deviation of each moment component at tool_frame",
        unit="N·m",
        lower=1e-3,
        upper=1e5,
        expert=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        n = max(len(self.contact_threshold), len(self.collision_threshold))
        contact = self.for_joints("contact_threshold", n)
        collision = self.for_joints("collision_threshold", n)
        # Zero is replaced by a default that is consistent.
        for i in np.flatnonzero((collision <= contact) & (collision > 0.0)):
            raise ParameterError(
                f"collision_threshold[{i}] is {collision[i]} but contact_threshold[{i}] is "
                f"{contact[i]} {_TORQUE}; a collision must lie above a contact"
            )

        low, high = self.contact_force_threshold, self.collision_force_threshold
        if 0.0 < high <= low:
            raise ParameterError(
                f"collision_force_threshold is {high} but contact_force_threshold is {low} N; a "
                f"collision must lie above a contact"
            )
        count = len(self.residual_covariance)
        if math.isqrt(count) ** 2 != count:
            raise ParameterError(f"residual_covariance has {count} values: not a square matrix")
        self.covariance(math.isqrt(count))

    def covariance(self, n: int) -> np.ndarray | None:
        """Return ``residual_covariance`` as a matrix (n, n) [(N·m)² or N²]; None if it is empty.

        Raises:
            ParameterError: if it has not n² values, or is not symmetric and positive definite.
        """
        covariance = self.joint_matrix("residual_covariance", n)
        if covariance is None:
            return None
        if not np.allclose(covariance, covariance.T, rtol=1e-6, atol=0.0):
            raise ParameterError("residual_covariance is not symmetric")
        try:
            least = float(np.linalg.eigvalsh(covariance)[0])
            np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            least = math.nan
        if not least >= LEAST_VARIANCE:
            raise ParameterError(
                f"residual_covariance is not positive definite: its least eigenvalue is "
                f"{least:.3g}; it must be at least {LEAST_VARIANCE:g} (N·m)² or N²"
            )
        return covariance

    def make_observer(self, model: Model) -> Observer:
        """Return the momentum observer with the filter that the parameter ``observer`` names.

        It estimates the external joint torques from efforts of the kind ``effort_kind``, with the
        gains, the friction and the ``velocity_delay`` of these parameters.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        observer = self._filter(model)
        observer.balance = self.balance(model)
        observer.design["delay"] = self.velocity_delay
        return observer

    def _filter(self, model: Model) -> Observer:
        """Return the observer for efforts that are torques."""
        n = model.nv
        friction = self.friction(n)
        if self.observer == "kalman":
            return KalmanObserver(
                model,
                self.for_joints("torque_noise", n),
                self.for_joints("momentum_noise", n),
                self.for_joints("torque_drift", n),
                friction,
            )
        gain = self.for_joints("observer_gain", n)
        if self.observer == "second_order":
            return SecondOrderObserver(model, gain, friction, self.observer_damping)
        return MomentumObserver(model, gain, friction)

    def balance(self, model: Model) -> MomentumBalance:
        """Return the momentum balance, from which unfiltered external joint torques follow.

        It takes efforts of the kind ``effort_kind``, and has the ``effort_gain`` and the friction
        of these parameters; ``velocity_delay`` has no effect on it.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        return MomentumBalance(
            model,
            self.friction(model.nv),
            effort_gain=self.for_joints("effort_gain", model.nv),
            with_gravity=self.effort_kind != "torque_without_gravity",
        )
