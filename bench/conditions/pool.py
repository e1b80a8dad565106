"""All rows of the table, in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from bench.conditions.rows import ROWS
from bench.conditions.study import Calibrated, Outcome, Plan, calibration, run


def study(
    arms: Sequence[str], rows: Sequence[int], seed: int, jobs: int, show: Callable[[str], None]
) -> dict[str, list[Outcome]]:
    """Return the outcomes of each arm in the order of the rows.

    Args:
        arms: names of the arms.
        rows: indices of the rows.
        seed: seed of the specimens.
        jobs: number of processes.
        show: called with a text as the progress of the run.
    """
    plan = Plan()
    # Forked processes would share the threads and locks of compiled code.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        calibrated = {name: pool.submit(_calibrated, name, plan, seed) for name in arms}
        known = {name: future.result() for name, future in calibrated.items()}
        # The slowest rows first.
        order = sorted(rows, key=lambda k: (-ROWS[k].ramp, k))
        waiting = {
            (name, k): pool.submit(_outcome, name, k, known[name], plan, seed)
            for k in order
            for name in arms
        }
        found: dict[tuple[str, int], Outcome] = {}
        for (name, k), future in waiting.items():
            show(f"{len(found)} of {len(waiting)}: {name}, {ROWS[k].name}")
            found[name, k] = future.result()
    return {name: [found[name, k] for k in rows] for name in arms}


def _calibrated(name: str, plan: Plan, seed: int) -> Calibrated:
    return calibration(name, ROWS[0], plan, seed)


def _outcome(name: str, row: int, known: Calibrated, plan: Plan, seed: int) -> Outcome:
    return run(name, ROWS[row], known, plan, seed)
