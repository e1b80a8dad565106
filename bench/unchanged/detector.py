"""Verdicts of the contact detector on simulated samples with pushes, for random parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.unchanged.arms import home, model
from bench.unchanged.store import Case, changes
from rbd_control.dynamics import frame_jacobian, gravity_torque, inverse_dynamics
from rbd_control.errors import RbdControlError
from rbd_control.estimation import ContactDetector, ContactEvent, DetectorParameters

RUNS = 15
PERIOD = 0.001
"""Period of the samples [s]."""
SAMPLES = 5000
PUSHES = ((1.4, 0.4, 20.0), (2.2, 0.3, 40.0), (3.2, 0.15, 200.0), (4.2, 0.4, 12.0))
"""Begin [s], duration [s] and force [N] of the pushes."""


class Samples:
    """Joint states of an arm on a smooth motion with pushes on random links.

    Args:
        seed: seed of the motion, the pushes and the noise.
        parameters: friction and kind of effort of the arm.

    Attributes:
        stamps, q, v, tau: times (k,), positions, velocities and efforts, (k, nv) each.
    """

    def __init__(self, seed: int, parameters: DetectorParameters) -> None:
        rng = np.random.default_rng(seed)
        self.name = "crane" if seed % 5 == 3 else "arm7"
        self.model = arm = model(self.name)
        n = arm.nv
        self.stamps = t = 100.0 + PERIOD * np.arange(SAMPLES)
        rate, size = rng.uniform(1.5, 3.0, n), rng.uniform(0.02, 0.15, n)
        angle = rate * (t - t[0])[:, None]
        still = ((t - t[0]) < 2.0)[:, None] if seed % 4 == 1 else np.zeros((SAMPLES, 1), dtype=bool)
        self.q = home(self.name) + np.where(still, 0.0, size * np.sin(angle))
        v = np.where(still, 0.0, size * rate * np.cos(angle))
        a = np.where(still, 0.0, -size * rate**2 * np.sin(angle))
        tau = inverse_dynamics(arm, self.q, v, a) + 0.3 * np.tanh(v / 0.02) + 0.4 * v
        for begin, duration, force in PUSHES:
            link = arm.joint_links[int(rng.integers(n // 2, n))]
            direction = rng.normal(size=3)
            direction *= force / np.linalg.norm(direction)
            for k in range(round(begin / PERIOD), round((begin + duration) / PERIOD)):
                tau[k] -= frame_jacobian(arm, self.q[k], link)[3:].T @ direction
        if parameters.effort_kind == "torque_without_gravity":
            tau -= gravity_torque(arm, self.q)
        tau = tau / np.array(parameters.for_joints("effort_gain", n))
        self.v = v + 1e-4 * rng.normal(size=v.shape)
        self.tau = tau + 0.02 * rng.normal(size=tau.shape)
        self.after = rng  # for further random decisions


def cases(_data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the results of all runs."""
    for seed in range(RUNS):
        yield f"run {seed}", _Run(seed).result()


def _parameters(seed: int) -> DetectorParameters:
    """Return the parameters of a run; over the runs all choices occur together."""
    n = 3 if seed % 5 == 3 else 7
    spread = 0.2 * (np.eye(n) + 0.3)
    chosen: dict[str, Any] = {
        "observer": ("momentum", "second_order", "kalman")[seed % 3],
        "observer_gain": (20.0 + 5.0 * seed,),
        "observer_damping": (1.0, 0.7)[seed % 2],
        "friction_model": ("coulomb_viscous", "none", "stribeck", "sigmoid")[seed % 4],
        "friction_coulomb": (0.3,),
        "friction_viscous": (0.4,),
        "friction_velocity_scale": (0.02,),
        "friction_stribeck": (0.1,),
        "friction_f1": (0.5,),
        "effort_kind": ("torque", "current", "torque_without_gravity")[seed // 2 % 3],
        "effort_gain": (8.0,) if seed // 2 % 3 == 1 else (1.0,),
        "residual_covariance": tuple(spread.ravel()) if seed % 2 else (),
        "statistic_speed": 0.5 * (seed % 2),
        "contact_threshold": (0.0,) if seed % 6 == 4 else (2.0,),
        "threshold_speed": (0.5,) if seed % 3 == 2 else (0.0,),
        "inertia_error": (0.1,) if seed % 4 == 2 else (0.0,),
        "effort_gain_error": (0.05,) if seed % 4 == 2 else (0.0,),
        "delay_error": 0.001 if seed % 4 == 2 else 0.0,
        "moving_ratio": (0.8,) if seed % 4 == 3 else (1.0,),
        "velocity_delay": 0.004 if seed % 4 == 3 else 0.0,
        "tool_frame": model("crane" if n == 3 else "arm7").joint_links[-1] if seed % 3 else "",
        "contact_force_threshold": 15.0 if seed % 7 == 2 else 0.0,
        "saturation_ratio": 0.2 if seed % 5 == 2 else 1.0,
        "onset_debounce": 0.004 if seed % 2 else 0.002,
    }
    return DetectorParameters(**chosen)


class _Run:
    """One detector, with single samples first and some blocks later, and with disturbances."""

    def __init__(self, seed: int) -> None:
        self.seed, self.parameters = seed, _parameters(seed)
        self.samples = Samples(seed, self.parameters)
        self.detector = ContactDetector(self.samples.model, self.parameters)
        self.wrong = _wrong_samples(self.samples)
        self.residual: list[np.ndarray] = []
        self.threshold: list[np.ndarray] = []
        self.force: list[list[float]] = []
        self.wrench: list[list[float]] = []
        self.codes: list[Any] = []
        self.texts: list[Any] = []
        self.events: list[Any] = []
        self.orders: list[Any] = []

    def result(self) -> Case:
        """Let all samples come, and return all that was recorded."""
        k, samples = 0, self.samples
        while k < SAMPLES:
            self._order(k)
            size = 50 if k >= 2000 and (k // 500) % 2 == 0 else 1
            part = slice(k, k + size)
            now = (samples.stamps[part], samples.q[part], samples.v[part], samples.tau[part])
            if size > 1:
                self._block(*now)
            else:
                self._single(k, *(each[0] for each in now))
            found = self.detector.tool_wrench() if k % 10 == 0 else None
            if found is not None:
                self.wrench.append([*found.wrench.ravel(), *found.covariance.ravel()])
            k += size
        detector = self.detector
        return {
            "residual": np.array(self.residual),
            "force": np.array(self.force, dtype=float),
            "wrench": np.array(self.wrench, dtype=float),
            "threshold": np.array(self.threshold),
            "codes": changes(self.codes),
            "verdict": changes(self.texts),
            "events": self.events,
            "orders": self.orders,
            "bias": detector.bias.copy(),
            "in use": np.array([detector.contact_threshold, detector.collision_threshold]),
        }

    def _order(self, k: int) -> None:
        detector, arm = self.detector, self.samples.model
        loaded = arm.with_payload(arm.joint_links[-1], 0.3, (0, 0, 0.05), np.zeros((3, 3)))
        changed = replace(self.parameters, release_ratio=0.5)
        methods: dict[int, Callable[[], Any]] = {
            1300: detector.tare,
            1950: lambda: detector.set_parameters(changed),
            2900: lambda: self._note(detector.reset(clear_tare=bool(self.seed % 2))),
            3100: detector.tare,
            3600: lambda: detector.set_model(loaded),
            4600: detector.tare,
        }
        if k in methods:
            try:
                self.orders.append([k, str(methods[k]())])
            except RbdControlError as error:
                self.orders.append([k, f"{type(error).__name__}: {error}"])

    def _note(self, event: ContactEvent | None) -> None:
        if event is not None:
            self.events.append({"phase": event.phase, **event.to_json()})

    def _block(self, *now: Any) -> None:
        said = self.detector.update_block(*now)
        self.residual += list(said.residual)
        self.threshold += list(said.threshold)
        rows = zip(said.reason, said.level, said.dropped, said.joint, strict=True)
        self.codes += [list(map(int, each)) for each in rows]
        for _, event in said.events:
            self._note(event)

    def _single(self, k: int, *now: Any) -> None:
        if k in self.wrong:
            now = self.wrong[k](*now)
        try:
            said = self.detector.update(*now)
        except RbdControlError as error:
            self.orders.append([k, str(error)])
            return
        self.residual.append(said.residual.copy())
        self._note(said.event)
        self.force.append([*_numbers(said.force), *_numbers(said.point), said.confidence])
        link = (said.link, [*said.candidates])
        self.texts.append([said.valid, said.reason, said.dropped, said.level, *link])


def _numbers(vector: np.ndarray | None) -> list[float]:
    return [np.nan] * 3 if vector is None else [float(x) for x in vector]


def _wrong_samples(samples: Samples) -> dict[int, Any]:
    """Return functions that change some samples, by the number of the sample."""
    rng, changed = samples.after, {}
    kinds = (
        lambda t, q, v, tau: (t, q, None, tau),
        lambda t, q, v, tau: (t, q, v, None),
        lambda t, q, v, tau: (t, q, v + 1e3, tau),
        lambda t, q, v, tau: (t, q, v, tau + 1e6),
        lambda t, q, v, tau: (t, q * np.nan, v, tau),
        lambda t, q, v, tau: (t - 5.0, q, v, tau),
        lambda t, q, v, tau: (t, q, v, tau * 0.0),
        lambda t, q, v, tau: (t, q[:-1], v, tau),
    )
    for kind in kinds:
        first = int(rng.integers(1350, SAMPLES - 200))
        for k in range(first, first + int(rng.integers(1, 8))):
            changed[k] = kind
    frozen = int(rng.integers(1350, 1800))
    q, v, tau = samples.q[frozen], samples.v[frozen], samples.tau[frozen]
    for k in range(frozen, frozen + 80):
        changed.setdefault(k, lambda t, _q, _v, _tau: (t, q, v, tau))
    return changed
