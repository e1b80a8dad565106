"""Put known defects back, one by one, and print after how many examples each is found.

An example is one random run of the stateful test of the controller
(``test/stateful/controller_machine.py``), which checks the promises of the controller.
``python -m bench.mutations [--examples N] [--seed N] [--defect NUMBER ...]``
"""

from __future__ import annotations

import argparse
import sys
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from stateful.controller_machine import ControllerMachine
from stateful.promises import BrokenPromise

from bench.mutations.defects import DEFECTS, Defect


class _Reached(Exception):  # noqa: N818 - not an error
    """An example has called all changed functions."""


def find(
    defect: Defect, examples: int, seed_value: int, until_reached: bool = False
) -> tuple[str, int, float]:
    """Run the stateful test of the controller with a defect until it finds the defect.

    Args:
        defect: the defect.
        examples: maximum number of examples.
        seed_value: seed of the examples.
        until_reached: end earlier, after the first example that has called the changed functions.

    Returns:
        Name of the promise that was broken (empty if the defect was not found), number of examples
        until then, and the time [s].

    Raises:
        LookupError: if the code that the defect patches is missing, or not reached.
    """

    class Mutant(ControllerMachine):
        # A defect counts as found only if a promise that belongs to it is broken.
        only = frozenset(defect.promises)
        examples = samples = 0

        def teardown(self) -> None:
            super().teardown()
            if until_reached and is_reached():
                raise _Reached

    begin = time.perf_counter()
    broken = ""
    chosen = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    with defect.put_back() as is_reached:
        try:
            run_state_machine_as_test(seed(seed_value)(Mutant), settings=chosen)
        except BrokenPromise as error:
            broken = error.promise
        except _Reached:
            pass
    return broken, Mutant.examples, time.perf_counter() - begin


def main(arguments: list[str] | None = None) -> int:
    """Test all chosen defects and print the table; return 0 if each was found, otherwise 1."""
    parser = argparse.ArgumentParser(prog="bench.mutations", description=__doc__)
    parser.add_argument("--examples", type=int, default=5000, help="most examples for a defect")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--defect", type=int, nargs="*", help="numbers; all by default")
    chosen = parser.parse_args(arguments)
    missed = 0
    print(f"{'defect':>6}  {'examples':>8}  {'time':>6}  promise broken")
    for defect in DEFECTS:
        if chosen.defect and defect.number not in chosen.defect:
            continue
        broken, examples, seconds = find(defect, chosen.examples, chosen.seed)
        missed += not broken
        # The test case that fails is run once more to be reported.
        count = max(examples - 1, 1) if broken else examples
        print(f"{defect.number:6}  {count:8}  {seconds:5.1f}s  {broken or 'NOT FOUND'}", flush=True)
        print(f"{'':26}{defect.text}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
