"""The arithmetic of `make bench-loop`; how fast anything is, is not tested."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from bench.loop.__main__ import WIDTH, write
from bench.loop.figures import (
    Command,
    TrackingError,
    answers,
    growth,
    latency,
    raised,
    stamped,
)
from bench.loop.run import ONE, STAGED, Loop, Usage, counted
from bench.loop.sheet import doubt, losses, targets
from bench.loop.stages import RECEIVE, STAGES, TOTAL, StageClock, stage_times
from bench.loop.watching import connections, is_served

MS = 1_000_000


def test_percentiles_of_known_latencies() -> None:
    found = latency(np.arange(1, 1002) / 1000.0)  # 1 to 1001 µs
    assert found.count == 1001
    assert (found.median, found.p99, found.worst) == pytest.approx((0.501, 0.991, 1.001))
    assert found.p999 == pytest.approx(1.0)
    assert np.isnan(latency([]).p99)


def test_answers_are_matched_with_what_was_sent() -> None:
    """One of five joint states has no answer; answers to older ones do not count."""
    sent = [k * MS for k in range(10, 15)]
    heard = [(9 * MS, 10 * MS), *((s, s + MS // 2) for s in sent[:3]), (sent[4], sent[4] + 2 * MS)]
    heard.append((sent[0], sent[0] + 50 * MS))  # a second answer
    found = answers(sent, heard, period=0.001)
    assert (found.sent, found.unanswered, found.late) == (5, 1, 1)
    assert found.latency.median == pytest.approx(0.5)
    assert found.latency.worst == pytest.approx(2.0)


def test_commands_get_the_stamp_of_the_sample_they_answer() -> None:
    """They are matched by torque; equal torques in order, torques without a report not at all."""
    commands = [Command(11, b"a"), Command(12, b"b"), Command(13, b"a"), Command(14, b"?")]
    errors = [TrackingError(1, b"a"), TrackingError(2, b"b"), TrackingError(3, b"a")]
    assert stamped(commands, errors) == [(1, 11), (2, 12), (3, 13)]


def test_flags_are_paired_with_the_samples_that_raised_them() -> None:
    flags = [(5, False), (12, True), (15, True), (20, False), (31, True), (40, False)]
    assert raised(flags, [10, 30]) == [(10, 12), (30, 31)]
    # The flag of the second event was not heard: it does not get that of the third.
    assert raised([(12, True), (20, False), (51, True)], [10, 30, 50]) == [(10, 12), (50, 51)]
    assert raised([(12, True)], []) == raised([], []) == []


def test_growth_is_that_of_the_second_half() -> None:
    t = np.arange(60.0)
    settling = np.where(t < 20, 500.0 * t, 10_000.0)
    assert growth(t, settling) == pytest.approx(0.0, abs=1e-6)
    assert growth(t, settling + 2.0 * t) == pytest.approx(120.0)


def loop(core: float = 0.2, shift: int = MS // 2, missing: int = 0, achieved: float = 1e3) -> Loop:
    """Return a run in which all answers took the same time."""
    sent = [k * MS for k in range(1000)]
    every = answers(sent, [(s, s + shift) for s in sent[missing:]], 0.001)
    used = Usage(core, 100.0, 0.0, (0.0, 1.0), (100, 100))
    nodes = ("passivity_controller", "contact_detector")
    flag = latency([0.5])
    usage = dict.fromkeys(("arm", *nodes), used)
    lost = dict.fromkeys(nodes, 0)
    return Loop(1e3, 1.0, achieved, every, every, every, flag, usage, lost, 0, "")


def test_targets_are_missed_one_by_one() -> None:
    assert all(target.met for target in targets(loop()))
    for bad, what in (
        (loop(core=0.3), {"contact_detector, cores"}),
        (
            loop(shift=2 * MS),
            {"joint state to torque, p99 [ms]", "joint state to residual, p99 [ms]"},
        ),
        (loop(missing=1), {"joint states delivered and lost"}),
    ):
        assert {target.text for target in targets(bad) if not target.met} == what


def test_a_joint_state_skipped_for_a_newer_one_is_not_lost(tmp_path: Path) -> None:
    """Unanswered are two skipped, two lost on the way and one lost joint state."""
    torque = loop(missing=5).torque
    residual = loop(missing=2).residual
    on_the_way = {"passivity_controller": 2, "contact_detector": 2}
    run = replace(loop(), torque=torque, residual=residual, lost_on_the_way=on_the_way, skipped=2)
    assert losses(run) == {"passivity_controller": 1, "contact_detector": 0}
    assert losses(replace(run, skipped=3)) == dict.fromkeys(on_the_way, 0)
    text = StringIO()
    write([run], tmp_path, Console(file=text, width=WIDTH))
    assert (
        "joint states delivered and lost (2 more skipped by the controller for a newer one)"
        in text.getvalue()
    )
    row = next(line for line in text.getvalue().splitlines() if "│ torque " in line)
    assert [cell.strip() for cell in row.split("│")[-4:-1]] == ["5", "2", "1000"]
    page = (tmp_path / "loop.md").read_text(encoding="utf-8")
    assert "| joint states skipped by passivity_controller for a newer one | 2 |" in page


def test_counts_are_those_of_the_measured_time() -> None:
    before = {"passivity_controller": {"skipped for a newer one": "7"}}
    after = {"passivity_controller": {"skipped for a newer one": "9"}}
    assert counted((before, after), "passivity_controller", "skipped for a newer one") == 2
    assert counted((before, after), "contact_detector", "lost on the way") == 0


def in_one_process(rate: float, **options: float) -> Loop:
    """Return such a run of the nodes in one process."""
    two = loop(**options)  # type: ignore[arg-type]
    used = two.usage["contact_detector"]
    usage = {"arm": used, ONE.processes[0]: used}
    return replace(two, rate=rate, arrangement=ONE.name, usage=usage)


def test_targets_of_one_process() -> None:
    """At 4 kHz only latency and losses count; runs that measure stages have no targets."""
    assert all(target.met for target in targets(in_one_process(1e3, core=0.34)))
    missed = {target.text for target in targets(in_one_process(1e3, core=0.36)) if not target.met}
    assert missed == {"contact_aware_controller, cores"}
    fast = targets(in_one_process(4e3, core=0.9, missing=1))
    assert {target.text for target in fast if not target.met} == {"joint states delivered and lost"}
    assert not targets(replace(loop(), rate=4e3))
    assert not targets(replace(in_one_process(1e3), arrangement=STAGED.name))


def test_stages_are_self_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a stage inside another one counts for the inner stage only."""
    now = [0]
    monkeypatch.setattr("bench.loop.stages.time.perf_counter_ns", lambda: now[0])
    clock = StageClock()

    def inner() -> str:
        now[0] += 7
        return "result"

    timed_inner = clock._timed(inner, "serialise")

    def outer() -> str:
        now[0] += 2
        found = timed_inner()
        now[0] += 3
        return found

    timed_outer = clock._timed(outer, "publish")
    assert timed_outer() == "result"
    assert not any(clock._row.values())  # Outside of the callback nothing counts.
    clock._is_inside = True
    assert timed_outer() == "result"
    assert (clock._row["publish"], clock._row["serialise"]) == (5, 7)
    assert clock._inner == 12


def test_times_of_stages_in_microseconds() -> None:
    times = np.zeros((100, len(STAGES)), dtype=np.int64)
    names = [stage.name for stage in STAGES]
    times[:, names.index(RECEIVE)] = np.arange(1, 101) * 1000
    times[:, names.index(TOTAL)] = 500
    found = {time.stage: time for time in stage_times(times)}
    assert found[RECEIVE].mean == pytest.approx(50.5)
    assert found[RECEIVE].median == pytest.approx(50.5)
    assert found[RECEIVE].p99 == pytest.approx(99.01)
    assert found[TOTAL].p99 == pytest.approx(0.5)
    assert len(found) == len(STAGES)


def test_what_cannot_be_judged() -> None:
    assert not doubt(loop())
    assert "only 700 of 1000" in doubt(loop(achieved=700.0))
    assert "p99 of a hop on which nothing is computed is 2.0 ms" in doubt(loop(shift=2 * MS))
    assert doubt(replace(loop(), fault="safe torque: silence")).endswith("silence")


def test_what_is_written(tmp_path: Path) -> None:
    text = StringIO()
    stages = tuple(stage_times(np.full((3, len(STAGES)), 1234, dtype=np.int64)))
    staged = replace(loop(), arrangement=STAGED.name, stages=stages)
    console = Console(file=text, width=150)
    write([loop(), loop(missing=3), loop(achieved=700.0)], tmp_path, console, [staged])
    assert "unanswered" in text.getvalue()
    assert "deserialise" in text.getvalue()
    assert "only 700 of 1000 joint states a second were sent" in text.getvalue()
    numbers = json.loads((tmp_path / "loop.json").read_text(encoding="utf-8"))
    assert [one["torque"]["unanswered"] for one in numbers["loops"]] == [0, 3, 0, 0]
    assert numbers["loops"][3]["stages"][0]["median"] == pytest.approx(1.234)
    assert any(target["met"] for target in numbers["targets"][:7])
    assert not any(target["met"] for target in numbers["targets"][14:])
    assert (tmp_path / "loop.png").stat().st_size > 10_000


def test_tables_for_the_documentation(tmp_path: Path) -> None:
    fast = replace(loop(achieved=3500.0), rate=4e3)
    write([loop(core=0.26, missing=2), fast], tmp_path, Console(file=StringIO()))
    text = (tmp_path / "loop.md").read_text(encoding="utf-8")
    for row in (
        "| joint state to external torque, p50 and p99 [ms] | 0.50, 0.50 | -, 1 |",
        "| contact_detector, share of a core | 0.26 | 0.25 |",
        "| lost samples | 2 | 0 |",
        "| from a joint state to | 1 kHz, two processes: p50, p99, p99.9 [ms] "
        "| 4 kHz (3.5 reached), two processes: p50, p99, p99.9 [ms] |",
        "| contact_detector, cores | 0.26 | 0.20 |",
    ):
        assert row in text


def test_a_run_with_the_view_has_columns_of_its_own(tmp_path: Path) -> None:
    alone = loop()
    usage = {**alone.usage, "view": replace(alone.usage["arm"], core=0.13)}
    beside = replace(loop(shift=MS), is_watched=True, usage=usage)
    text = StringIO()
    write([alone, beside], tmp_path, Console(file=text, width=WIDTH))
    assert "two processes, with view" in text.getvalue()
    tables = (tmp_path / "loop.md").read_text(encoding="utf-8")
    assert (
        "| 1 kHz, two processes: p50, p99, p99.9 [ms] "
        "| 1 kHz, two processes, with view: p50, p99, p99.9 [ms] |"
    ) in tables
    assert "| torque | 0.50, 0.50, 0.50 | 1.0, 1.0, 1.0 |" in tables
    assert "| view, cores | - | 0.13 |" in tables
    assert tables.count("joint state to torque") == 1, "README.md has the nodes alone"


def test_one_process_has_columns_of_its_own(tmp_path: Path) -> None:
    """The losses that the shared subscription reports count for both nodes."""
    one = in_one_process(1e3, core=0.3, missing=2)
    one = replace(one, lost_on_the_way={**one.lost_on_the_way, "passivity_controller": 2})
    beside = replace(one, is_watched=True, usage={**one.usage, "view": one.usage["arm"]})
    stages = tuple(stage_times(np.full((3, len(STAGES)), 1234, dtype=np.int64)))
    staged = replace(one, arrangement=STAGED.name, stages=stages)
    text = StringIO()
    write([loop(), one, beside], tmp_path, Console(file=text, width=WIDTH), [staged])
    assert "targets at 1000 Hz, one process, with view" in text.getvalue()
    tables = (tmp_path / "loop.md").read_text(encoding="utf-8")
    for row in (
        "| | 1 kHz, two processes | 1 kHz, one process | 1 kHz, one process, with view |",
        "| contact_detector, cores | 0.20 | - | - |",
        "| contact_aware_controller, cores | - | 0.30 | 0.30 |",
        "| contact_aware_controller, growth of memory [kB/min] | - | +0 | +0 |",
        "| view, cores | - | - | 0.30 |",
        "contact_detector | 0 of 1000, 0 of 1000 | 0 of 1000, 0 of 1000 | 0 of 1000, 0 of 1000 |",
        "| deserialise | ours | 1.2 | 1.2 | 1.2 |",
    ):
        assert row in tables.replace("|  |", "| |")
    assert tables.count("joint state to torque") == 1, "README.md has two processes"


def test_connections_to_a_port_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_served(port)
        assert connections(port) == 0
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            assert connections(port) == 1
    assert not is_served(port)


def test_a_run_in_which_nothing_was_detected(tmp_path: Path) -> None:
    write([replace(loop(), flag=latency(()))], tmp_path, Console(file=StringIO()))
    numbers = json.loads((tmp_path / "loop.json").read_text(encoding="utf-8"))
    assert numbers["loops"][0]["flag"]["p99"] is None
    missed = {target["text"] for target in numbers["targets"] if not target["met"]}
    assert missed == {"joint state to contact flag, p99 [ms]"}
