"""Damaged input files: one line that names the file, and never a traceback.

The files are those of the package ``damage``; ``python -m damage`` runs thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import Case, Makers, bags, judge, run, sound, tables, texts
from damage.mcap_writer import mcap

from rbd_control.errors import RecordingError
from rbd_control.playback.table import Table


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Makers:
    return Makers(tmp_path_factory.mktemp("damage"))


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def replayed(makers: Makers, file: Path, **instead: Path) -> Case:
    """Return the case of ``replay`` on a file, or on the sound log with another file damaged."""
    files = {"log": file, "urdf": makers.urdf, "config": makers.config, **instead}
    arguments = [str(files["log"]), "--urdf", str(files["urdf"]), "--config", str(files["config"])]
    if "labels" in files:
        arguments += ["--labels", str(files["labels"])]
    return Case("test", file, ("replay", *arguments), file.parent)


def problems(cases: Iterator[tuple[str, Case]]) -> list[str]:
    """Run the cases; return the problems of each."""
    return [f"{name}: {wrong}" for name, case in cases for wrong in judge(case, run(case))]


def refusal(case: Case) -> str:
    """Run a case that must be refused; the one line."""
    outcome = run(case)
    assert outcome.code == 2
    assert judge(case, outcome) == []
    return outcome.err


def test_sound_files_are_read(makers: Makers, tmp_path: Path) -> None:
    """All kinds of recordings from which the damaged ones are made; each finds the push."""
    mcap_file = tmp_path / "plain.mcap"
    mcap_file.write_bytes(mcap(makers.bags.messages))
    for path in (*makers.bags.folders.values(), makers.log, mcap_file):
        outcome = run(replayed(makers, path))
        assert outcome.code == 0, outcome.err
        assert "collision" in outcome.out or "contact " in outcome.out
        assert outcome.err == ""


KINDS = ("bag", "description", "config", "labels")


@pytest.mark.parametrize("kind", KINDS)
def test_random_damage(makers: Makers, kind: str) -> None:
    def cases() -> Iterator[tuple[str, Case]]:
        for seed in range(40):
            case = makers.case(seed, kind)
            yield case.name, case
            case.remove()

    assert problems(cases()) == []


def written(folder: Path, changes: Sequence[Any], name: str, text: str) -> Iterator[Path]:
    """Write the file of each change to a separate folder."""
    rng = np.random.default_rng(1)
    for k, change in enumerate(changes):
        path = folder / f"{k}" / name
        path.parent.mkdir()
        content = change(rng, text) if callable(change) else change
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        yield path


def test_every_change_of_a_table(makers: Makers, tmp_path: Path) -> None:
    sane = [c for c in tables.CHANGES if c not in tables.ABSURD_CHANGES]
    files = written(tmp_path, sane, "log.csv", makers.log.read_text())
    assert problems((path.parent.name, replayed(makers, path)) for path in files) == []


def test_every_lie_of_an_mcap_file(makers: Makers, tmp_path: Path) -> None:
    contents = [mcap(makers.bags.messages, lie) for lie in bags.MCAP_LIES]
    files = written(tmp_path, contents, "bag.mcap", "")
    assert problems((path.parent.name, replayed(makers, path)) for path in files) == []


def test_every_change_of_a_database(makers: Makers, tmp_path: Path) -> None:
    def cases() -> Iterator[tuple[str, Case]]:
        for k, statement in enumerate(bags.SQL):
            path = tmp_path / f"{k}" / "bag.db3"
            path.parent.mkdir()
            bags.change_database(makers.bags.storage("db3"), path, statement)
            yield str(statement), replayed(makers, path)

    assert problems(cases()) == []


def test_every_change_of_the_metadata(makers: Makers, tmp_path: Path) -> None:
    def cases() -> Iterator[tuple[str, Case]]:
        for k, change in enumerate(bags.METADATA):
            (tmp_path / f"{k}").mkdir()
            path = makers.bags.copy("mcap", tmp_path / f"{k}")
            bags.change_metadata(path / "metadata.yaml", change)
            yield str(change)[:80], replayed(makers, path)

    assert problems(cases()) == []


def test_every_change_of_a_description(makers: Makers, tmp_path: Path) -> None:
    changed = [sound.URDF.replace(*change) for change in texts.URDF_CHANGES]
    files = written(tmp_path, changed, "two.urdf", "")
    cases = (
        (
            str(texts.URDF_CHANGES[int(path.parent.name)])[:80],
            replayed(makers, makers.log, urdf=path),
        )
        for path in files
    )
    assert problems(cases) == []


def test_every_parameter_file(makers: Makers, tmp_path: Path) -> None:
    files = written(tmp_path, texts.CONFIGS, "detector.yaml", "")
    cases = ((path.read_text()[:80], replayed(makers, makers.log, config=path)) for path in files)
    assert problems(cases) == []


def test_every_file_of_labels(makers: Makers, tmp_path: Path) -> None:
    files = written(tmp_path, tables.LABELS, "labels.csv", "")
    cases = ((path.read_text()[:80], replayed(makers, makers.log, labels=path)) for path in files)
    assert problems(cases) == []


REFUSED = {
    "another serialization": (
        "UPDATE topics SET serialization_format = 'json'",
        "topic '/joint_states' is serialised as 'json'; only 'cdr' is read",
    ),
    "no table": ("DROP TABLE messages", "database missing tables"),
    "text for data": (
        "UPDATE messages SET data = 'text' WHERE id = 30",
        "cannot be read as a recording (",
    ),
    "a huge message": (
        "UPDATE messages SET data = zeroblob(50000000) WHERE id = 30",
        "a message on '/joint_states' has 50000000 bytes; at most 262144 are read",
    ),
    "no message of the topic": (
        "UPDATE messages SET topic_id = 77",
        "holds no message on '/joint_states'",
    ),
}


@pytest.mark.parametrize(("statement", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_messages_on_a_damaged_database(
    makers: Makers, tmp_path: Path, statement: str, says: str
) -> None:
    path = tmp_path / "bag.db3"
    bags.change_database(makers.bags.storage("db3"), path, (statement,))
    assert says in refusal(replayed(makers, path))


def test_messages_on_a_file_cut_short(makers: Makers, tmp_path: Path) -> None:
    path = tmp_path / "bag.mcap"
    path.write_bytes(mcap(makers.bags.messages)[:-500])
    line = refusal(replayed(makers, path))
    assert "File end magic is invalid" in line
    assert "'mcap recover' may repair it" in line


def test_a_cell_of_garbage_is_shortened(makers: Makers, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = makers.log.read_text().splitlines()
    lines[9] = f"0.1,{'x' * 5000},\x1b[31m,0,0,0,0"
    path.write_text("\n".join(lines))
    line = refusal(replayed(makers, path))
    assert "line 10, column 2: 'xxx" in line
    assert "…' is not a number" in line


def test_wrong_metadata_is_named(makers: Makers, tmp_path: Path) -> None:
    path = makers.bags.copy("mcap", tmp_path)
    bags.change_metadata(path / "metadata.yaml", ("mcap.mcap", "gone.mcap"))
    line = refusal(replayed(makers, path))
    assert f"{path}/metadata.yaml: lists gone.mcap, which the folder does not hold" in line
    assert "remove this file" in line
    (path / "metadata.yaml").unlink()
    assert run(replayed(makers, path)).code == 0


UNITS = {
    "nanoseconds": ("{:.0f}", 1e9, 0.0, "these look like nanoseconds, divide them by 1e9"),
    "microseconds": ("{:.0f}", 1e6, 0.0, "these look like microseconds, divide them by 1e6"),
    "nanoseconds since 1970": ("{:.0f}", 1e9, 1.7e9, "these look like nanoseconds"),
    "microseconds since 1970": ("{:.0f}", 1e6, 1.7e9, "these look like microseconds"),
    "milliseconds since 1970": ("{:.0f}", 1e3, 1.7e9, "these look like milliseconds"),
}


@pytest.mark.parametrize(("form", "factor", "start", "says"), UNITS.values(), ids=UNITS.keys())
def test_times_in_another_unit(
    makers: Makers, tmp_path: Path, form: str, factor: float, start: float, says: str
) -> None:
    change = tables._time(lambda t, rng: (t + start) * factor, form)
    path = tmp_path / "log.csv"
    path.write_text(str(change(np.random.default_rng(0), makers.log.read_text())))
    assert says in refusal(replayed(makers, path))


@pytest.mark.parametrize("rate", [100.0, 1000.0, 2000.0, 4000.0, 5000.0])
def test_microseconds_of_logs_of_any_rate(tmp_path: Path, rate: float) -> None:
    """They are not taken for milliseconds, however fast the log is."""
    times = np.round(1e6 * np.arange(50) / rate)
    path = tmp_path / "log.csv"
    path.write_text("time,position/a\n" + "".join(f"{t:.0f},0.1\n" for t in times))
    with pytest.raises(RecordingError, match="these look like microseconds, divide them by 1e6"):
        Table(path)


@pytest.mark.parametrize("rate", [10.0, 100.0, 1000.0])
def test_milliseconds_of_usual_rates_are_no_microseconds(tmp_path: Path, rate: float) -> None:
    times = np.round(1e3 * np.arange(50) / rate)
    path = tmp_path / "log.csv"
    path.write_text("time,position/a\n" + "".join(f"{t:.0f},0.1\n" for t in times))
    assert Table(path).count == 50


def test_relative_milliseconds_are_pointed_out(makers: Makers, tmp_path: Path) -> None:
    """They may also be seconds of a slow log, so the run continues with a note."""
    change = tables._time(lambda t, rng: t * 1e3, "{:.0f}")
    path = tmp_path / "log.csv"
    path.write_text(str(change(np.random.default_rng(0), makers.log.read_text())))
    outcome = run(replayed(makers, path))
    assert outcome.code in (0, 1)
    assert "if the times are in milliseconds, divide them by 1000" in " ".join(outcome.out.split())


def test_memory_is_bounded_for_a_line_without_end(makers: Makers, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(makers.log.read_text() + "1," * 50_000_000)
    outcome = run(replayed(makers, path))
    assert outcome.code == 2
    assert "is longer than 1048576 characters" in outcome.err
    assert outcome.growth < 50.0
