"""Damaged input files: one line that names the file, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from damage import Case, Sound, bags, judge, raw, run, tables, texts
from damage.mcap_writer import mcap
from damage.sound import CONFIG, LABELS, URDF

from rbd_control.errors import RecordingError
from rbd_control.playback.table import Table


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def problems(cases: Iterable[Case]) -> list[str]:
    """Run the cases; return the problems of each."""
    return [f"{case.file}: {wrong}" for case in cases for wrong in judge(case, run(case))]


def refusal(case: Case) -> str:
    """Run a case that must be refused; the one line."""
    outcome = run(case)
    assert outcome.code == 2
    assert judge(case, outcome) == []
    return outcome.err


def test_sound_files_are_read(sound: Sound, tmp_path: Path) -> None:
    """All kinds of recordings from which the damaged ones are made; each finds the push."""
    mcap_file = tmp_path / "plain.mcap"
    mcap_file.write_bytes(mcap(sound.bags.messages))
    for path in (*sound.bags.folders.values(), sound.log, mcap_file):
        outcome = run(sound.replayed(path))
        assert outcome.code == 0, outcome.err
        assert "collision" in outcome.out or "contact " in outcome.out
        assert outcome.err == ""


def folders(root: Path, count: int) -> list[Path]:
    """Return new folders."""
    made = [root / f"{k}" for k in range(count)]
    for folder in made:
        folder.mkdir()
    return made


@pytest.mark.parametrize("kind", ["bag", "urdf", "config", "labels"])
def test_random_damage(sound: Sound, kind: str, tmp_path: Path) -> None:
    cases = []
    for seed, folder in enumerate(folders(tmp_path, 30 if kind == "bag" else 12)):
        rng = np.random.default_rng(seed)
        if kind == "bag":
            cases.append(sound.replayed(bags.damaged_storage(rng, sound.bags, folder)))
        else:
            text = {"urdf": URDF, "config": CONFIG, "labels": LABELS}[kind]
            path = folder / kind
            path.write_bytes(raw.any_damage(rng, text.encode()))
            cases.append(sound.replayed(path, kind))
    assert problems(cases) == []


def written(root: Path, name: str, contents: Sequence[str | bytes]) -> list[Path]:
    """Write each content to a file of this name in a separate folder."""
    paths = [folder / name for folder in folders(root, len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def test_every_change_of_a_table(sound: Sound, tmp_path: Path) -> None:
    rng, text = np.random.default_rng(1), sound.log.read_text()
    files = written(tmp_path, "log.csv", [change(rng, text) for change in tables.CHANGES])
    assert problems(map(sound.replayed, files)) == []


def test_every_lie_and_odd_message_of_an_mcap_file(sound: Sound, tmp_path: Path) -> None:
    messages = sound.bags.messages
    contents = [mcap(messages, lie) for lie in bags.MCAP_LIES]
    contents += map(mcap, bags.odd_messages(messages))
    files = written(tmp_path, "bag.mcap", contents)
    assert problems(map(sound.replayed, files)) == []


def test_every_change_of_a_database(sound: Sound, tmp_path: Path) -> None:
    files = [folder / "bag.db3" for folder in folders(tmp_path, len(bags.SQL))]
    for file, statement in zip(files, bags.SQL, strict=True):
        bags.change_database(sound.bags.storage("db3"), file, statement)
    assert problems(map(sound.replayed, files)) == []


def test_every_change_of_the_metadata(sound: Sound, tmp_path: Path) -> None:
    made = [sound.bags.copy("mcap", f) for f in folders(tmp_path, len(bags.METADATA))]
    for folder, change in zip(made, bags.METADATA, strict=True):
        bags.change_metadata(folder / "metadata.yaml", change)
    assert problems(map(sound.replayed, made)) == []


def test_every_odd_place_of_a_recording(sound: Sound, tmp_path: Path) -> None:
    cases = []
    for folder, (name, make) in zip(
        folders(tmp_path, len(bags.ODD_PLACES)), bags.ODD_PLACES, strict=True
    ):
        make(folder / name, sound.bags)
        cases.append(sound.replayed(folder / name))
    assert problems(cases) == []


TEXTS: dict[str, tuple[str, Sequence[str]]] = {
    "urdf": ("two.urdf", [URDF.replace(*change) for change in texts.URDF_CHANGES]),
    "config": ("detector.yaml", texts.CONFIGS),
    "labels": ("labels.csv", tables.LABELS),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_every_change_of_a_text(kind: str, sound: Sound, tmp_path: Path) -> None:
    files = written(tmp_path, *TEXTS[kind])
    assert problems(sound.replayed(path, kind) for path in files) == []


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
    sound: Sound, tmp_path: Path, statement: str, says: str
) -> None:
    path = tmp_path / "bag.db3"
    bags.change_database(sound.bags.storage("db3"), path, (statement,))
    assert says in refusal(sound.replayed(path))


def test_a_cell_of_garbage_is_shortened(sound: Sound, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = sound.log.read_text().splitlines()
    lines[9] = f"0.1,{'x' * 5000},\x1b[31m,0,0,0,0"
    path.write_text("\n".join(lines))
    line = refusal(sound.replayed(path))
    assert "line 10, column 2: 'xxx" in line
    assert "…' is not a number" in line


UNITS = {
    "nanoseconds": ("{:.0f}", 1e9, 0.0, "these look like nanoseconds, divide them by 1e9"),
    "microseconds": ("{:.0f}", 1e6, 0.0, "these look like microseconds, divide them by 1e6"),
    "nanoseconds since 1970": ("{:.0f}", 1e9, 1.7e9, "these look like nanoseconds"),
    "microseconds since 1970": ("{:.0f}", 1e6, 1.7e9, "these look like microseconds"),
    "milliseconds since 1970": ("{:.0f}", 1e3, 1.7e9, "these look like milliseconds"),
}


@pytest.mark.parametrize(("form", "factor", "start", "says"), UNITS.values(), ids=UNITS.keys())
def test_times_in_another_unit(
    sound: Sound, tmp_path: Path, form: str, factor: float, start: float, says: str
) -> None:
    change = tables.time_in(lambda t: (t + start) * factor, form)
    path = tmp_path / "log.csv"
    path.write_text(str(change(np.random.default_rng(0), sound.log.read_text())))
    assert says in refusal(sound.replayed(path))


@pytest.mark.parametrize("rate", [100.0, 1000.0, 2000.0, 4000.0, 5000.0])
def test_microseconds_of_logs_of_any_rate(tmp_path: Path, rate: float) -> None:
    """They are not taken for milliseconds, however fast the log is."""
    times = np.round(1e6 * np.arange(50) / rate)
    path = tmp_path / "log.csv"
    path.write_text("time,position/a\n" + "".join(f"{t:.0f},0.1\n" for t in times))
    with pytest.raises(RecordingError, match="these look like microseconds, divide them by 1e6"):
        Table(path)


def test_memory_is_bounded_for_a_line_without_end(sound: Sound, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(sound.log.read_text() + "1," * 50_000_000)
    outcome = run(sound.replayed(path))
    assert outcome.code == 2
    assert "is longer than 1048576 characters" in outcome.err
    assert outcome.growth < 50.0
