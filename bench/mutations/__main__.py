"""Put known defects back, one by one, and print by what and how soon each is found.

Defects of the controller are judged by its stateful test (``test/stateful/controller_machine.py``),
which checks the promises of the controller; an example is one random run of it. All other defects
are judged by the ordinary tests that should find them.
``python -m bench.mutations [--only stateful|tests] [--defect NUMBER ...]``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from stateful.controller_machine import ControllerMachine
from stateful.promises import BrokenPromise

from bench.mutations.copied_package import CopiedPackage
from bench.mutations.defects import DEFECTS, Defect
from bench.mutations.mutants import Mutant
from bench.mutations.text_defects import MUTANTS

REPOSITORY = Path(__file__).resolve().parents[2]


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

    class Mutated(ControllerMachine):
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
            run_state_machine_as_test(seed(seed_value)(Mutated), settings=chosen)
        except BrokenPromise as error:
            broken = error.promise
        except _Reached:
            pass
    return broken, Mutated.examples, time.perf_counter() - begin


def find_by_machine(defects: Sequence[Defect], examples: int, seed_value: int) -> int:
    """Judge defects by the stateful test, print their rows, and return the number not found."""
    missed = 0
    for defect in defects:
        broken, ran, seconds = find(defect, examples, seed_value)
        missed += not broken
        # The test case that fails is run once more to be reported.
        count = max(ran - 1, 1) if broken else ran
        found = f"{broken} ({count} examples)" if broken else ""
        _print_row(defect.number, "controller", seconds, found, defect.text)
    return missed


def find_by_tests(mutants: Sequence[Mutant]) -> int:
    """Judge mutants by their tests, print their rows, and return the number not found.

    Raises:
        LookupError: if the text that a mutant replaces is gone, or its tests do not import it.
        RuntimeError: if the tests fail without a mutant as well, or cannot be run.
    """
    for mutant in mutants:
        mutant.check(REPOSITORY)
    missed = 0
    with CopiedPackage.made(REPOSITORY) as copied:
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        seconds = copied.require_sound(tests)
        _print_row(0, "all", seconds, "", "no defect: all tests below pass")
        for mutant in mutants:
            found, seconds = copied.find(mutant)
            missed += not found
            _print_row(mutant.number, mutant.area, seconds, found, mutant.text)
    return missed


def _print_row(number: int, area: str, seconds: float, found: str, text: str) -> None:
    outcome = found or ("-" if number == 0 else "NOT FOUND")
    print(f"{number:6}  {area:<12}  {seconds:5.1f}s  {outcome}\n{'':30}{text}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Test all chosen defects and print the table; return 0 if each was found, otherwise 1."""
    parser = argparse.ArgumentParser(prog="bench.mutations", description=__doc__)
    parser.add_argument("--examples", type=int, default=5000, help="most examples for a defect")
    parser.add_argument("--seed", type=int, default=1, help="of the examples")
    parser.add_argument("--defect", type=int, nargs="*", help="numbers; all by default")
    parser.add_argument("--only", choices=("stateful", "tests"), help="judge of the defects")
    chosen = parser.parse_args(arguments)
    wanted = chosen.defect or [each.number for each in (*DEFECTS, *MUTANTS)]
    defects = [each for each in DEFECTS if each.number in wanted and chosen.only != "tests"]
    mutants = [each for each in MUTANTS if each.number in wanted and chosen.only != "stateful"]
    if not defects and not mutants:
        parser.error("no defect has such a number")
    begin = time.perf_counter()
    print(f"{'defect':>6}  {'area':<12}  {'time':>6}  found by", flush=True)
    missed = find_by_machine(defects, chosen.examples, chosen.seed) if defects else 0
    missed += find_by_tests(mutants) if mutants else 0
    found = len(defects) + len(mutants) - missed
    print(f"{found} found, {missed} not found in {time.perf_counter() - begin:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
