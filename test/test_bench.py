"""`make bench` on a robot of two links; speed itself is not tested."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("pinocchio")
pytest.importorskip("mujoco")

from bench import lanes
from bench.speed import ew21, ours, pages, rivals, sheets
from bench.speed.__main__ import WIDTH, write
from bench.speed.contest import Contest, Timing
from bench.speed.measure import measure, spread
from bench.speed.mechanisms import Mechanism, member
from bench.speed.quantities import Column, Contestant, Quantity
from bench.speed.rivals import Rivals
from bench.speed.targets import Outcome, outcomes
from rbd_control.dynamics import gravity_torque
from rbd_control.dynamics.batches import STATES_FOR_COMPILING
from rbd_control.dynamics.momentum import _GRAVITY_TORQUE

IN_PYTHON = set(sheets.LIBRARIES.columns) - {Column.PINOCCHIO_CPP}


@pytest.fixture(scope="module")
def contest() -> Contest:
    """Two links as a robot, so that M is frozen too; M alone, to compile little."""
    return Contest(
        replace(member("chain", 2), family="", joints=0), [Quantity.MASS, Quantity.GDAHJ]
    )


def test_all_compute_the_same(contest: Contest) -> None:
    # Two rotations and a few sums of numbers near one.
    assert contest.disagreement() < 1e-14
    assert contest.without_mujoco == ""


def test_who_computes_something_else_is_not_timed(
    contest: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Contestant(lambda calls: 0.0, lambda: (np.zeros((2, 2)),))
    monkeypatch.setattr(ours, "batch", lambda mechanism, quantity: nothing)
    other = Contest(contest.mechanism, [Quantity.GDAHJ])
    with pytest.raises(ValueError, match="chain 2: M by GDAHJ of ours batch differs from ours by"):
        other.disagreement()


def test_everything_is_written(contest: Contest, tmp_path: Path) -> None:
    timings = contest.timings(rounds=2, duration=1e-5)
    assert [set(timing.seconds) for timing in timings] == [
        IN_PYTHON,
        IN_PYTHON - {Column.FROZEN, Column.LOOP},
    ]
    assert all((seconds > 0.0).all() for t in timings for seconds in t.seconds.values())
    output = StringIO()
    write(timings, "remarks", tmp_path, Console(file=output, width=WIDTH))
    assert "frozen/Pinocchio" in output.getvalue()
    assert "…" not in output.getvalue()
    numbers = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert [row["quantity"] for row in numbers["times"]] == ["M", "M by GDAHJ"]
    assert "README.md" in (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| M |" in (tmp_path / "bench.md").read_text(encoding="utf-8")
    assert (tmp_path / "bench.png").stat().st_size > 10_000


def test_rivals_that_cannot_take_part_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = SimpleNamespace(problem="casadi is not installed")
    monkeypatch.setattr(rivals.with_casadi, "Generator", lambda: generator)
    monkeypatch.setattr(rivals.with_drake, "find_spec", lambda name: None)
    monkeypatch.setattr(rivals.with_frax, "find_spec", lambda name: name)
    monkeypatch.setattr(rivals, "compiler", lambda: "cc")

    def broken(mechanism: Mechanism) -> None:
        raise ImportError("frax needs\n  jax")

    monkeypatch.setattr(rivals.with_frax, "robot_of", broken)
    monkeypatch.setattr(rivals, "ours", SimpleNamespace(exported=id, library=lambda *_: None))
    monkeypatch.setattr(rivals, "NAMES", {})
    absent = Rivals()
    assert absent.contestants(member("chain", 2), None) == {}
    assert set(absent.problems) == {Column.CASADI, Column.DRAKE}
    assert absent.contestants(replace(member("chain", 2), name="Panda"), None) == {}
    text = sheets.remarks([], absent.problems, 1e-15)
    for reason in (
        "Pinocchio CasADi's C took no part: casadi is not installed.",
        "Drake Python took no part: install drake.",
        "frax Python took no part: frax needs jax.",
    ):
        assert reason in text


def test_rivals_are_compared_timed_and_shown(contest: Contest) -> None:
    mine = Contest(contest.mechanism, [Quantity.GDAHJ])
    theirs = {
        (Quantity.GDAHJ, Column.CASADI): ours.plain(contest.mechanism, Quantity.GDAHJ),
        (Quantity.FORWARD, Column.CASADI): Contestant(lambda calls: 0.0, tuple),  # not asked for
    }
    mine.add_rivals(SimpleNamespace(contestants=lambda mechanism, twin: theirs))
    assert mine.disagreement() < 1e-14
    (timing,) = mine.timings(rounds=2, duration=1e-5)
    assert (timing.seconds[Column.CASADI] > 0.0).all()
    table = sheets.rivals([timing, replace(timing, seconds={})])
    (section,) = table.sections
    assert [row[0].strip() for row in section] == [contest.mechanism.label, "M by GDAHJ"]
    assert section[1][1 + sheets.RIVALS.columns.index(Column.CASADI)] != "-"
    assert section[1][1 + sheets.RIVALS.columns.index(Column.DRAKE)] == "-"
    theirs[Quantity.GDAHJ, Column.CASADI] = Contestant(lambda calls: 0.0, lambda: (np.eye(2),))
    mine.add_rivals(SimpleNamespace(contestants=lambda mechanism, twin: theirs))
    with pytest.raises(ValueError, match="M by GDAHJ of Pinocchio CasADi's C differs from ours"):
        mine.disagreement()


def test_the_table_of_rivals_fits(contest: Contest) -> None:
    slow = {column: np.array([0.8e-3, 1.2e-3, 14e-3]) for column in sheets.RIVALS.columns}
    panda = replace(contest.mechanism, name="Panda")
    output = StringIO()
    fast = {**slow, Column.FROZEN: np.full(3, 1e-6)}
    table = sheets.rivals([Timing(panda, Quantity.SLOTINE_LI, fast)])
    Console(file=output, width=WIDTH).print(table.rich())
    assert "1200 (1000-7600)" in output.getvalue()
    assert "…" not in output.getvalue()


def test_other_libraries_get_bodies_and_joints_only() -> None:
    urdf = (
        '<robot name="r"><link name="a"><visual/></link><link name="b"/><link name="c"/>'
        '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><dynamics/></joint>'
        '<joint name="k" type="revolute"><parent link="b"/><child link="c"/>'
        '<mimic joint="j"/><safety_controller/></joint><transmission/></robot>'
    )
    robot = ElementTree.fromstring(Mechanism("r", urdf, locked={"k": 0.0}).bare_urdf)
    assert [(each.tag, len(each)) for each in robot] == [
        *(("link", 0), ("link", 0), ("link", 0)),
        *(("joint", 2), ("joint", 2)),
    ]
    assert [joint.get("type") for joint in robot.iterfind("joint")] == ["revolute", "fixed"]


def test_contestants_take_turns_and_a_call_costs_what_it_costs() -> None:
    order = []

    def takes(name: str, seconds: float) -> Callable[[int], float]:
        def run(calls: int) -> float:
            order.append(name)
            return calls * seconds

        return run

    # Powers of two, so that multiplying by a number of calls and dividing by it is exact.
    times = measure({"a": takes("a", 2.0**-10), "b": takes("b", 2.0**-12)}, 4, 1e-9)
    assert set(times["a"]) == {2.0**-10}
    assert set(times["b"]) == {2.0**-12}
    assert order[-8:] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_ratios_are_those_within_a_round() -> None:
    noise = np.array([1.0, 5.0, 2.0, 9.0, 3.0])
    timing = Timing(
        member("chain", 5), Quantity.MASS, {Column.PLAIN: noise, Column.PINOCCHIO: 4.0 * noise}
    )
    ratio = timing.ratio(Column.PLAIN, Column.PINOCCHIO)
    assert (ratio.low, ratio.median, ratio.high) == (0.25, 0.25, 0.25)
    assert timing.ratio(Column.PLAIN, Column.MUJOCO) is None


def test_slope_and_crossing_of_powers() -> None:
    square = {n: 0.5 * n**2 for n in (5, 10, 20, 50, 100)}
    line = {n: 15.0 * n for n in square}
    # A fit of logarithms that lie on the line: rounding.
    assert ew21.slope(square) == pytest.approx(2.0, abs=1e-12)
    assert ew21.crossing(line, square) == pytest.approx(30.0, rel=1e-12)
    assert ew21.crossing(square, line) is None


@pytest.mark.parametrize("family", ew21.PUBLISHED)
def test_terms_are_pairs_and_triples_of_related_bodies(family: str) -> None:
    mechanism = member(family, 9)
    parent = mechanism.model.arrays.parent
    chains = []
    for i in range(mechanism.model.nv):
        chain = [i]
        while parent[chain[-1]] >= 0:
            chain.append(parent[chain[-1]])
        chains.append(chain)
    triples = sum(len(list(itertools.combinations_with_replacement(c, 2))) for c in chains)
    assert ew21.terms_of_sum(mechanism, Quantity.TERMS) == sum(map(len, chains))
    assert ew21.terms_of_sum(mechanism, Quantity.CHRISTOFFEL) == triples


def test_targets_are_judged_by_the_median() -> None:
    panda = replace(member("chain", 7), name="Panda", family="", joints=0)
    seconds = {Column.FROZEN: 1.0, Column.PINOCCHIO: 2.9, Column.PLAIN: 1.5, Column.BATCH: 1e-7}
    timing = Timing(panda, Quantity.TERMS, {c: np.full(3, s) for c, s in seconds.items()})
    found = outcomes([timing])
    assert [outcome.met for outcome in found] == [False, False, True]
    assert Outcome("", spread(np.array([0.2, 0.3, 0.5])), 0.3).met
    assert "missed" in sheets.targets(found).markdown()


def test_tables_for_the_documentation() -> None:
    panda = replace(member("chain", 7), name="Panda", family="", joints=0)
    microseconds = {Column.PLAIN: 1.5, Column.FROZEN: 0.75, Column.PINOCCHIO: 3.0}
    microseconds |= {Column.BATCH: 0.12, Column.LOOP: 0.5, Column.PINOCCHIO_CPP: 2.5}
    seconds = {column: np.full(3, 1e-6 * time) for column, time in microseconds.items()}
    text = pages.page([Timing(panda, Quantity.TERMS, seconds)], "- a machine")
    for row in (
        "- a machine",
        "| Panda: M, C, Cᵀv and g | 1.50 | 0.75 (0.25) | 3.00 | 0.50 (0.20) | 2.50 |",
        "| M, C, Cᵀv, g | 0.048 (0.048-0.048) | 0.50 (0.50-0.50) | 0.200 (0.200-0.200) |",
        "in a batch on one core [µs per state] | 0.12 |",
    ):
        assert row in text
    assert "Talos" not in text, "not measured"


def test_batches_are_measured_with_and_without_lanes() -> None:
    kernels = _GRAVITY_TORQUE
    with lanes.without_lanes(gravity_torque):
        assert kernels.of(STATES_FOR_COMPILING) is kernels.states
    assert kernels.of(STATES_FOR_COMPILING) is kernels.lanes
    name, *times, ratio, rate = lanes.row(member("chain", 2), "gravity_torque", 2)
    assert name == "`gravity_torque`"
    assert min(map(float, (*times, ratio, rate))) > 0.0
    with pytest.raises(ValueError, match="no kernel"), lanes.without_lanes(measure):
        pass
