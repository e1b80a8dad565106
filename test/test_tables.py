"""`make tables` for EW21 and E20: errors as small as published, or errors of the source.

S18's tables are tested with GDAHJ, in dynamics/test_gdahj.py.
"""

import numpy as np
import pytest

from bench.tables import e20, ew21

REST = ("4.3", "4.4")
IN_MOTION = "4.5"


def published(number: str, label: str) -> np.ndarray:
    return np.array(e20.PUBLISHED[number][label])


def computed(number: str, label: str, method: str = "differences") -> np.ndarray:
    return np.array([getattr(case, method)()[label] for case in e20.CASES[number]])


@pytest.mark.parametrize("n", ew21.BODIES)
def test_ew21_errors_are_no_larger_than_published(n: int) -> None:
    ours, theirs = ew21.errors(n), ew21.PUBLISHED[n]
    assert ours.torque <= theirs.torque
    assert ours.rate <= theirs.rate
    assert ours.christoffel <= theirs.christoffel
    # EW21 has no independent rate. Its entries reach n² times 1e2 N·m·s; ten roundings of that.
    assert ours.rate_of_energy < 10.0 * np.finfo(float).eps * n**2 * 1e2


def test_e20_table_31_is_no_larger_than_published() -> None:
    columns = zip(*(e20.verification_errors(n) for n in e20.BODIES), strict=True)
    for (label, theirs), ours in zip(e20.PUBLISHED["3.1"].items(), columns, strict=False):
        assert np.all(np.array(ours) <= theirs), label


def test_e20_table_41_is_no_larger_than_published() -> None:
    (theirs,) = e20.PUBLISHED["4.1"].values()
    ours = [case.torque_error(case.geared) for case in e20.CASES["4.1"]]
    assert np.all(np.array(ours) <= theirs)
    # The largest torque is n N·m: what the source prints is no inverse of inverse dynamics.
    assert all(case.torque_error(case.printed()) > 1.0 for case in e20.CASES["4.1"])


@pytest.mark.parametrize("label", e20.PUBLISHED["4.2"])
def test_e20_table_42_is_no_larger_than_published(label: str) -> None:
    assert np.all(computed("4.2", label) <= published("4.2", label))


@pytest.mark.parametrize("number", [*REST, IN_MOTION])
def test_rotors_are_exact_and_those_of_e20_are_not(number: str) -> None:
    for case in e20.CASES[number]:
        # Rounding of up to 92 rad/s² at a condition number of M of up to 64.
        assert e20.largest(case.geared - case.exact) < 2e-12
        assert e20.largest(case.printed() - case.exact) > 0.1
        assert e20.largest(case.printed(ratio_at_joint=False) - case.exact) > 0.05


HALF_A_DIGIT = 0.005 + 1e-9


@pytest.mark.parametrize("number", REST)
def test_the_reflected_rotors_are_those_of_e20_to_all_digits(number: str) -> None:
    """Hence mechanism, state and rotors are those of the thesis."""
    ours = computed(number, e20.MCRBA_ABA)
    assert np.abs(ours - published(number, e20.MCRBA_ABA)).max() <= HALF_A_DIGIT
