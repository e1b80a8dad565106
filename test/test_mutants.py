"""The known defects of the mutation test fit the present sources and tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.mutations.defects import DEFECTS
from bench.mutations.mutants import Mutant
from bench.mutations.text_defects import MUTANTS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.number))
def test_a_mutant_can_still_be_put_in(mutant: Mutant) -> None:
    """Its text occurs once, the result is Python code, and the tests that judge it exist."""
    mutant.check(ROOT)
    assert mutant.tests


def test_numbers_are_unique() -> None:
    numbers = [each.number for each in (*DEFECTS, *MUTANTS)]
    assert len(set(numbers)) == len(numbers)
