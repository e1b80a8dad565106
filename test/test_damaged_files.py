"""Damaged input files: one line that names the file, and never a traceback.

``test_fuzz_and_soak.py`` adds random damage.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path

import lz4.frame
import numpy as np
import pytest
from damage.bags import Bags
from damage.mcap_writer import Lies, mcap
from damage.sound import CONFIG, LABELS, URDF, csv_text, swing

from bench.fuzz.command_line import Run, judgement
from rbd_control.cli.main import main
from rbd_control.errors import RecordingError
from rbd_control.playback.table import Table


class Sound:
    """Sound files, which damaged ones are made of."""

    def __init__(self, root: Path) -> None:
        self.bags = Bags.write(root)
        self.csv = csv_text(swing(1.2))
        self.log = root / "log.csv"
        self.files = {"urdf": root / "two.urdf", "config": root / "detector.yaml"}
        for path, text in zip(
            (self.log, *self.files.values()), (self.csv, URDF, CONFIG), strict=True
        ):
            path.write_text(text)

    def replayed(self, file: Path, kind: str = "log") -> Run:
        """Return the result of ``replay`` on a file of some kind beside the sound files."""
        files = {"log": self.log, **self.files, kind: file}
        log = files.pop("log")
        options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
        error = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(error):
            code = main(["replay", str(log), *options])
        return Run(code, error.getvalue(), "", 0.0)

    def problems(self, files: Iterable[Path], kind: str = "log") -> list[str]:
        """Return what is wrong with the result of ``replay`` on each file."""
        found = []
        for file in files:
            named = file.name.encode("unicode_escape").decode()
            what, detail = judgement(self.replayed(file, kind), (named[:100],))
            found += [f"{file}: {what}: {detail}"] if what else []
        return found

    def refusal(self, file: Path) -> str:
        """Return the one line about a file that must be refused."""
        done = self.replayed(file)
        assert done.code == 2
        assert judgement(done, (file.name,)) == ("", "")
        return done.error


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def places(root: Path, name: str, count: int) -> list[Path]:
    """Return paths of this name in new folders."""
    paths = [root / f"{k}" / name for k in range(count)]
    for path in paths:
        path.parent.mkdir()
    return paths


def written(root: Path, name: str, contents: Iterable[str | bytes]) -> list[Path]:
    """Write each content to a file of this name in a separate folder."""
    listed = list(contents)
    paths = places(root, name, len(listed))
    for path, content in zip(paths, listed, strict=True):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def test_sound_files_are_read(sound: Sound, tmp_path: Path) -> None:
    """All kinds of recordings from which the damaged ones are made."""
    mcap_file = tmp_path / "plain.mcap"
    mcap_file.write_bytes(mcap(sound.bags.messages))
    for path in (*sound.bags.folders.values(), sound.log, mcap_file):
        done = sound.replayed(path)
        assert (done.code, done.error) == (0, "")


TABLES: tuple[Callable[[str], str | bytes], ...] = (
    lambda text: text.replace("0.1", "nan"),
    lambda text: text.replace("0.1", "1e400"),
    lambda text: text.replace("0.1", "x" * 5000, 1),
    lambda text: text.replace("0.1", '"', 1),
    lambda text: text.partition("\n")[2],
    lambda text: text.partition("\n")[0],
    lambda text: text.replace("\n", ",1,1\n"),
    lambda text: text.replace(",", ";"),
    lambda text: text.replace("\n", " "),
    lambda text: "\ufeff" + text,
    lambda text: text.encode("utf-16"),
    lambda text: text.replace("elbow", "épaule").encode("latin-1"),
    lambda text: text.encode()[:3000] + b"\x00" * 500 + text.encode()[3000:],
    lambda text: text.replace("elbow", "a\x1b[31m\x07"),
    lambda text: "x" * 3_000_000,
    lambda text: ",".join(f"position/j{k}" for k in range(60_000)) + "\n",
    lambda text: times(text, lambda t: t[::-1], "{:.6f}"),
    lambda text: times(text, lambda t: 0.0 * t, "{:.6f}"),
    lambda text: times(text, lambda t: t * 1e300, "{:.6g}"),
)


def times(text: str, change: Callable[[np.ndarray], np.ndarray], form: str) -> str:
    """Return a table with other times."""
    header, *rows = text.strip().split("\n")
    changed = change(np.array([float(row.split(",")[0]) for row in rows]))
    lines = [
        ",".join([form.format(t), *row.split(",")[1:]])
        for t, row in zip(changed, rows, strict=True)
    ]
    return "\n".join([header, *lines]) + "\n"


def test_every_change_of_a_table(sound: Sound, tmp_path: Path) -> None:
    files = written(tmp_path, "log.csv", [change(sound.csv) for change in TABLES])
    assert sound.problems(files) == []


HUGE = 2**62
LIES: tuple[Lies, ...] = (
    {"magic": b"\x89MCAP1\r\n"},
    {"msgtype": b"sensor_msgs/msg/Image"},
    {"encoding": b"json"},
    {"topic": b"\xff\xff"},
    {"compression": b"snappy"},
    {"compression": b"lz4", "compress": lambda x: lz4.frame.compress(x + bytes(1 << 26))},
    {"uncompressed_size": HUGE},
    {"chunk_size": HUGE},
    {"crc": 1},
    {"chunk_offset": 10**9},
    {"chunk_channels": ()},
    {"message_size": 2**64 - 1},
    {"message_channel": 9},
    {"summary_start": HUGE},
)
"""Lies of each kind of record; rosbags reads them, and its errors must become one line."""


def test_every_lie_of_an_mcap_file(sound: Sound, tmp_path: Path) -> None:
    files = written(tmp_path, "bag.mcap", [mcap(sound.bags.messages, lie) for lie in LIES])
    assert sound.problems(files) == []


def change_database(source: Path, target: Path, statements: str) -> None:
    """Copy an SQLite file and run statements on the copy."""
    shutil.copy(source, target)
    with closing(sqlite3.connect(target)) as database:
        for each in statements.split(";"):
            database.execute(each)
        database.commit()


SQL = (
    "DROP TABLE schema",
    "UPDATE topics SET name = x'ff00' WHERE id = 1",
    "UPDATE topics SET type = 7",
    "UPDATE messages SET timestamp = 'yesterday' WHERE id = 30",
    "ALTER TABLE messages RENAME COLUMN data TO payload",
    "DROP TABLE messages; CREATE VIEW messages AS WITH RECURSIVE r(id, topic_id, timestamp, data) "
    "AS (SELECT 1, 1, 1, x'00' UNION ALL SELECT id + 1, 1, id, x'00' FROM r) SELECT * FROM r",
)


def test_every_change_of_a_database(sound: Sound, tmp_path: Path) -> None:
    files = places(tmp_path, "bag.db3", len(SQL))
    for file, statements in zip(files, SQL, strict=True):
        change_database(sound.bags.storage("db3"), file, statements)
    assert sound.problems(files) == []


REFUSED = {
    "another serialization": (
        "UPDATE topics SET serialization_format = 'json'",
        "topic '/joint_states' is serialised as 'json'; only 'cdr' is read",
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
    change_database(sound.bags.storage("db3"), path, statement)
    assert says in sound.refusal(path)


METADATA = (
    ("version: 9", "version: x"),
    ("storage_identifier: mcap", "storage_identifier: sqlite3"),
    ("relative_file_paths", "files_there"),
    ("/joint_states", "/other"),
    ("bag.", "../../../dev/zero."),
    ("compression_mode: ''", "compression_mode: FILE"),
)
METADATA_TEXTS = (
    "",
    "rosbag2_bagfile_information: {relative_file_paths: [1, {a: b}, null]}",
    'rosbag2_bagfile_information: {relative_file_paths: ["a\\0b.mcap"]}',
    "a: !!python/object/apply:os.system ['true']",
    "rosbag2_bagfile_information: " + "[" * 100_000 + "]" * 100_000,
)


def test_every_change_of_the_metadata(sound: Sound, tmp_path: Path) -> None:
    sound_text = (sound.bags.folders["mcap"] / "metadata.yaml").read_text()
    texts = [*(sound_text.replace(*change) for change in METADATA), *METADATA_TEXTS]
    bags = [sound.bags.copy("mcap", path.parent) for path in places(tmp_path, "bag", len(texts))]
    for bag, text in zip(bags, texts, strict=True):
        (bag / "metadata.yaml").write_text(text)
    assert sound.problems(bags) == []


ODD_PLACES: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("bag.mcap", Path.mkdir),
    ("bag.mcap", lambda path: path.symlink_to(path)),
    ("bag.mcap", lambda path: path.symlink_to("/dev/zero")),
    ("bag.mcap", os.mkfifo),
    ("gone.db3", lambda path: None),
    ("line\nbreak \x1b[31m.mcap", lambda path: path.write_bytes(b"\x89MCAP0\r\n")),
)
"""Names of paths that are no recording, and what makes them."""


def test_every_odd_place_of_a_recording(sound: Sound, tmp_path: Path) -> None:
    for k, (name, make) in enumerate(ODD_PLACES):
        path = tmp_path / f"{k}" / name
        path.parent.mkdir()
        make(path)
        assert sound.problems([path]) == []


def _bomb(key: str) -> str:
    levels = "abcdefghij"
    lines = ["a: &a [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"]
    lines += [
        f"{y}: &{y} [{', '.join([f'*{x}'] * 9)}]" for x, y in zip(levels, levels[1:], strict=False)
    ]
    return "\n".join([*lines, f"contact_detector: {{ros__parameters: {{{key}: *j}}}}\n"])


TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "urdf": (
        "two.urdf",
        (
            URDF.replace("</robot>", ""),
            URDF.replace('name="base"', 'name="ba\x1bse"'),
            URDF.replace('link="base"', 'link="lower"'),
            URDF.replace('<mass value="3"/>', '<mass value="1e300"/>'),
            URDF.replace('effort="100"', 'effort="1e-300"'),
            URDF.replace("<robot", '<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot'),
            URDF.replace("<robot", '<?xml version="1.0" encoding="rot13"?><robot'),
            URDF.replace("</robot>", "<a>" * 5000 + "</a>" * 5000 + "</robot>"),
            URDF.replace("</robot>", '<link name="l"/>' * 3000 + "</robot>"),
        ),
    ),
    "config": (
        "detector.yaml",
        (
            "[]",
            "contact_detector: {ros__parameters: [1, 2]}\n",
            "!!python/object/apply:os.system ['true']\n",
            "[" * 100_000 + "]" * 100_000,
            _bomb("contact_threshold"),
            "contact_detector: {ros__parameters: {contact_threshold: *x}}\n",
            "contact_detector: {ros__parameters: {1: 2}}\n",
            "contact_detector: {ros__parameters: {contact_threshold: 1e400}}\n",
            'contact_detector: {ros__parameters: {observer: "\\e[31m\\n"}}\n',
            "a: &a [*a]\ncontact_detector: {ros__parameters: *a}\n",
        ),
    ),
    "labels": (
        "labels.csv",
        (
            "",
            "begin,end\n2,1\n",
            "begin,end\nnan,2\n",
            "begin,end\n1,2,3\n",
            "begin,end\n0.4,0.9\n0.5,0.6\n",
            '"begin,end\n1,2\n',
            "begin,end\n" + "x" * 2_000_000,
            LABELS.replace("log", "\x1b[31m"),
        ),
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_every_change_of_a_text(kind: str, sound: Sound, tmp_path: Path) -> None:
    assert sound.problems(written(tmp_path, *TEXTS[kind]), kind) == []


def test_a_cell_of_garbage_is_shortened(sound: Sound, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = sound.csv.splitlines()
    lines[9] = f"0.1,{'x' * 5000},\x1b[31m,0,0,0,0"
    path.write_text("\n".join(lines))
    line = sound.refusal(path)
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
    path = tmp_path / "log.csv"
    path.write_text(times(sound.csv, lambda t: (t + start) * factor, form))
    assert says in sound.refusal(path)


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
    path.write_text(sound.csv + "1," * 50_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "is longer than 1048576 characters" in sound.refusal(path)
    # In kB; the peak before includes the text that was written.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
