"""Random verdicts, motions and requests for the parts of the contact guard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bench.unchanged.store import Case, changes
from rbd_control.contact_stop import ArmMotion, ContactStop, Retreat, StopParameters
from rbd_control.contact_stop.retreat_along_path import RetreatSupervision
from rbd_control.errors import RbdControlError

RUNS = 15
PERIOD = 0.01
"""Period of joint states and checks [s]."""
SAMPLES = 4000
JOINTS = ("one", "two", "three")


def cases(_data: Sequence[Path], runs: int = RUNS) -> Iterator[tuple[str, Case]]:
    """Yield the results of all runs."""
    for seed in range(runs):
        yield f"run {seed}", _run(seed)


def _run(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    parameters = StopParameters(
        joints=JOINTS,
        stop_at=("contact", "collision")[seed % 2],
        longest_contact=0.3,
        stop_on_silence=seed % 3 == 0,
        retreat_distance=0.1 if seed % 4 else 0.0,
        standstill_time=0.1 if seed % 5 else 0.0,
    )
    stop, motion = ContactStop(parameters), ArmMotion(JOINTS if seed % 4 else ())
    retreat, supervision = Retreat(parameters), RetreatSupervision(parameters)
    states, answers, moves = [], [], []
    orders: list[Any] = []
    q, v, speed = np.zeros(3), np.zeros(3), np.zeros(3)
    now, flag, silent_until, blind_until, answered = 50.0, False, 0.0, 0.0, False
    stop.start(now)
    for k in range(SAMPLES):
        now += PERIOD if rng.random() > 0.002 else float(rng.choice([0.15, 0.7]))
        if k % 80 == 0:
            speed = np.zeros(3) if stop.is_latched else rng.uniform(-0.5, 0.5, 3)
        v += 0.2 * (speed - v) if not stop.is_latched else -0.2 * v
        v[np.abs(v) < 1e-4] = 0.0
        q = q + PERIOD * v
        motion.beat(now)
        told: Any = () if seed % 6 == 2 else list(v)
        if rng.random() < 0.001:
            blind_until = now + 0.8
        if now > blind_until:
            known = motion.hear(now, JOINTS, list(q), told, now, parameters.standstill_speed)
            retreat.take(now, list(q), stop.is_latched, now)
            answers.append([known, motion.ignored])
        if rng.random() < 0.01:
            flag = not flag
        if rng.random() < 0.002:
            silent_until = now + float(rng.choice([0.2, 0.8]))
        begins = stop.hear(flag, now) if k % 2 == 0 and now > silent_until else False
        if rng.random() < 0.003:
            begins |= stop.hear_collision(now)
        if rng.random() < 0.0005:
            begins |= stop.fail("a defect", now)
        begins |= stop.check(now)
        if begins:
            answered = False
            orders.append([k, "stop", stop.reason, stop.is_by_contact])
            stop.sent(now + 0.001)
            stop.hear_onset(float(rng.uniform(-0.1, 0.3)), now + 0.02)
        answered |= rng.random() < 0.05
        still = motion.still_since(now)
        if stop.confirm(answered, still, now):
            points = retreat.begin(motion.positions()) if seed % 4 else []
            moves += [[point.time, *point.position] for point in points]
            orders.append([k, "confirmed", str(stop.times)])
            if points:
                supervision.plan(now, motion.positions(), points)
        if supervision.phase == "waiting" and rng.random() < 0.2:
            supervision.begin(now)
        reason = supervision.check(now, motion, stop.missing(now), stop.is_touched(now))
        if reason:
            orders.append([k, "retreat", reason])
            if supervision.phase == "retreating":
                point = supervision.target(now, motion)
                moves.append([point.time, *point.position])
                supervision.hold()
                supervision.held(now, point.time)
            else:
                supervision.drop()
        ended = supervision.has_ended(now, motion)
        if rng.random() < 0.01 and stop.is_latched:
            try:
                stop.resume(now)
                retreat.reset()
                supervision.drop()
                orders.append([k, "resumed"])
            except RbdControlError as error:
                orders.append([k, str(error)])
        fastest, missing = motion.fastest(), motion.missing(now)
        states.append(
            [
                stop.state,
                stop.stops,
                stop.reason,
                stop.obstacle(now),
                stop.missing(now)[:22],
                missing,
            ]
            + [fastest[0], None if still is None else still, supervision.phase, ended]
        )
        if still == inf and k % 500 == 499:
            motion.forget()
    return {
        "states": changes(states),
        "answers": changes(answers),
        "orders": orders,
        "moves": np.array(moves, dtype=float),
    }
