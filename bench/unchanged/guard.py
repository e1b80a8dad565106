"""Random verdicts, motions and requests for the parts of the contact guard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bench.unchanged.store import Case, changes
from rbd_control.contact_stop import ContactStop, Retreat, StandstillMonitor, StopParameters
from rbd_control.contact_stop.retreat_along_path import RetreatSupervision
from rbd_control.errors import RbdControlError

RUNS = 15
PERIOD = 0.01
"""Period of joint states and checks [s]."""
SAMPLES = 4000
JOINTS = ("one", "two", "three")


def cases(_data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the results of all runs."""
    for seed in range(RUNS):
        run = _Run(seed)
        for k in range(SAMPLES):
            run.step(k)
        yield f"run {seed}", run.result()


class _Run:
    """An arm that moves, stops and retreats at random, and the guard."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.parameters = StopParameters(
            joints=JOINTS,
            stop_at=("contact", "collision")[seed % 2],
            longest_contact=0.3,
            stop_on_silence=seed % 3 == 0,
            retreat_distance=0.1 if seed % 4 else 0.0,
            standstill_time=0.1 if seed % 5 else 0.0,
        )
        self.errors, self.motion = ContactStop(self.parameters), StandstillMonitor(JOINTS)
        self.retreat = Retreat(self.parameters)
        self.supervision = RetreatSupervision(self.parameters)
        self.q, self.v, self.speed = np.zeros(3), np.zeros(3), np.zeros(3)
        self.now = 50.0
        self.flag = self.answered = False
        self.silent_until = self.blind_until = 0.0
        self.states: list[Any] = []
        self.orders: list[Any] = []
        self.moves: list[list[float]] = []
        self.errors.start(self.now)

    def step(self, k: int) -> None:
        """Let one period pass."""
        self.now += PERIOD if self._chance(0.998) else float(self.rng.choice([0.15, 0.7]))
        self._move(k)
        known = self._hear_joint_states()
        if self._hear_detector(k):
            self.answered = False
            self.orders.append([k, "stop", self.errors.reason, self.errors.is_by_contact])
            self.errors.sent(self.now + 0.001)
            self.errors.update_onset(float(self.rng.uniform(-0.1, 0.3)), self.now + 0.02)
        still = self.motion.still_since(self.now)
        self._confirm(k, still)
        self._supervise(k)
        if self._chance(0.01) and self.errors.is_latched:
            self._resume(k)
        guard, now = self.errors, self.now
        told = (guard.state, guard.stops, guard.reason, guard.obstacle(now), guard.missing(now))
        motion = (
            known,
            self.motion.ignored,
            still,
            self.motion.missing(now),
            self.motion.fastest()[0],
        )
        self.states.append([*told, *motion, self.supervision.phase])

    def result(self) -> Case:
        """Return all that was recorded."""
        return {
            "states": changes(self.states),
            "orders": self.orders,
            "moves": np.array(self.moves, dtype=float),
        }

    def _chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def _move(self, k: int) -> None:
        stops = self.errors.is_latched
        if k % 80 == 0:
            self.speed = self.rng.uniform(-0.5, 0.5, 3)
        self.v += 0.2 * (np.where(stops, 0.0, self.speed) - self.v)
        self.v[np.abs(self.v) < 1e-4] = 0.0
        self.q = self.q + PERIOD * self.v

    def _hear_joint_states(self) -> bool:
        self.motion.beat(self.now)
        if self._chance(0.001):
            self.blind_until = self.now + 0.8
        if self.now <= self.blind_until:
            return False
        told = [] if self.seed % 6 == 2 else self.v.tolist()
        if self.seed % 6 == 4:
            told = [0.0] * 3  # the driver does not measure velocities
        q, now = self.q.tolist(), self.now
        names = JOINTS if self._chance(0.99) else JOINTS[:2]
        speed = self.parameters.standstill_speed
        known = self.motion.add_joint_state(now, names, q, told, now, speed)
        self.retreat.take(now, q, self.errors.is_latched, now)
        return known

    def _hear_detector(self, k: int) -> bool:
        """Return whether a stop begins."""
        guard, now, begins = self.errors, self.now, False
        if self._chance(0.01):
            self.flag = not self.flag
        if self._chance(0.002):
            self.silent_until = now + float(self.rng.choice([0.2, 0.8]))
        if k % 2 == 0 and now > self.silent_until:
            begins |= guard.update_verdict(self.flag, now)
        if self._chance(0.003):
            begins |= guard.update_collision(now)
        if self._chance(0.0005):
            begins |= guard.fail("a defect", now)
        return begins | guard.check(now)

    def _confirm(self, k: int, still: float | None) -> None:
        self.answered |= self._chance(0.05)
        if not self.errors.confirm(self.answered, still, self.now):
            return
        times = self.errors.times
        self.orders.append([k, "confirmed", times and asdict(times)])
        position = self.motion.positions()
        points = self.retreat.begin(position) if self.parameters.retreat_distance else []
        self.moves += [[point.time, *point.position] for point in points]
        if points:
            self.supervision.plan(self.now, position, points)

    def _supervise(self, k: int) -> None:
        supervision, guard, now = self.supervision, self.errors, self.now
        if supervision.phase == "waiting" and self._chance(0.2):
            supervision.begin(now)
        silence = guard.missing(now)
        reason = supervision.check(now, self.motion, silence, guard.is_touched(now))
        if reason:
            self.orders.append([k, "retreat", reason])
        if reason and supervision.phase == "retreating":
            supervision.hold()
        elif reason:
            supervision.drop()
        if supervision.phase == "holding" and (
            reason or supervision.must_hold_again(now, self.motion)
        ):
            point = supervision.target(now, self.motion)
            self.moves.append([point.time, *point.position])
            supervision.held(now, point.time)
        if supervision.has_ended(now, self.motion):
            self.orders.append([k, "retreat ended"])

    def _resume(self, k: int) -> None:
        try:
            self.errors.resume(self.now)
        except RbdControlError as error:
            self.orders.append([k, str(error)])
            return
        self.retreat.reset()
        self.supervision.drop()
        self.orders.append([k, "resumed"])
