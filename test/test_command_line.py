"""``rbd-control``: exit codes, one line on stderr, signals, broken pipes and wrong usage."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from damage import sound
from damage.bags import Bags

from rbd_control.cli import replay
from rbd_control.cli.main import _parser, main
from rbd_control.errors import RecordingError
from rbd_control.files.input_files import about, reading
from rbd_control.files.output_files import write_whole
from rbd_control.wording import abridged, listed, printable, quoted, shortened

COMMAND = (sys.executable, "-m", "rbd_control.cli.main")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a sound log.csv, two.urdf and detector.yaml."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "log.csv").write_text(sound.csv_text(sound.swing(1.2)))
    (folder / "two.urdf").write_text(sound.URDF)
    (folder / "detector.yaml").write_text(sound.CONFIG)
    return folder


def arguments(files: Path, *more: str) -> list[str]:
    config = str(files / "detector.yaml")
    return [str(files / "log.csv"), "--urdf", str(files / "two.urdf"), "--config", config, *more]


def test_a_fault_of_the_program_is_one_line_and_a_traceback_on_request(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        with about(files / "log.csv"):
            raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(replay, "replay", broken)
    command = ["replay", *arguments(files)]
    assert main(command) == 3
    err = capsys.readouterr().err
    assert err.startswith(f"rbd-control: {files / 'log.csv'}: internal error of rbd_control 0.1")
    assert "ZeroDivisionError in replay.py:" in err
    assert "please report it with the output of --debug" in err
    assert err.count("\n") == 1
    for debugging in (["--debug", *command], [*command, "--debug"]):
        assert main(debugging) == 3
        assert "Traceback" in capsys.readouterr().err


def test_every_foreign_exception_becomes_an_error_that_names_the_file() -> None:
    for error, says in (
        (StopIteration(), "is not a bag (StopIteration); mend it"),
        (RecursionError("deep"), "is not a bag (nested too deeply); mend it"),
        (MemoryError(), "cannot be read: it takes more memory than there is"),
        (ValueError("x" * 5000), "is not a bag (xxx"),
    ):
        with (
            pytest.raises(RecordingError) as caught,
            reading("a.bag", RecordingError, "is not a bag", "mend it"),
        ):
            raise error
        assert str(caught.value).startswith(f"a.bag: {says}")
        assert len(str(caught.value)) < 200
    for interrupt in (KeyboardInterrupt, SystemExit):
        with pytest.raises(interrupt), reading("a.bag", RecordingError, "is not a bag"):
            raise interrupt


def test_words() -> None:
    assert printable("a\n\x1b[31m\udcff") == "a\\n\\x1b[31m\\udcff"
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("\x00" * 10_000, 8) == "\\x00\\x0…"
    assert quoted("x" * 100, 5) == "'xxxx…'"
    nested: list[object] = [1.0]
    for _ in range(60):
        nested = [nested, nested]  # 2**60 numbers
    assert len(quoted(nested)) <= 40
    assert quoted(10**5000) == "an integer of 16610 bits"
    assert listed([f"panda_joint{k}" for k in range(1, 8)], 45) == (
        "panda_joint1, panda_joint2, panda_joint3, … (7)"
    )
    assert abridged("what is wrong; " + "x" * 300 + "; what to do", 60).endswith("; what to do")
    assert len(abridged("\x00" * 300, 60)) <= 60


def run(*command: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload]
        [*COMMAND, *command], stderr=subprocess.PIPE, text=True, timeout=240, **options
    )


def test_a_reader_that_goes_ends_it_quietly(files: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stdout:
        done = run("replay", *arguments(files), stdout=stdout)
    assert (done.returncode, done.stderr) == (141, "")


def test_standard_output_on_a_full_disk_is_one_line(files: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run("replay", *arguments(files), stdout=full)
    assert done.returncode == 2
    message = "rbd-control: standard output: cannot be written: No space left on device\n"
    assert done.stderr == message


@pytest.mark.parametrize("closed", ["2>&-"])
def test_closed_streams_are_no_error(files: Path, tmp_path: Path, closed: str) -> None:
    out = tmp_path / "out.json"
    command = " ".join((*COMMAND, "replay", *arguments(files, "--json", str(out))))
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], timeout=240, check=False)
    assert done.returncode == 0
    assert out.exists()


def test_a_signal_ends_it_quietly_and_leaves_nothing(files: Path, tmp_path: Path) -> None:
    """The description is a pipe, so that it is known when the command waits for it."""
    pipe = tmp_path / "two.urdf"
    os.mkfifo(pipe)
    (tmp_path / "tmp").mkdir()
    packed = Bags.write(tmp_path / "bags").folders["db3_file"]
    process = subprocess.Popen(
        [*COMMAND, "replay", str(packed), "--urdf", str(pipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    with pipe.open("w"):  # returns when the command has opened it
        assert list((tmp_path / "tmp").iterdir()), "the recording is expanded there"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "detector.yaml"
    write_whole(path, b"first")
    assert path.read_bytes() == b"first"
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"second")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_section_for_a_node_in_a_namespace_is_named(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command cannot know the namespace; it named no section and used the defaults."""
    body = {"ros__parameters": {"contact_threshold": [99.0, 99.0]}}
    other = {"/left/contact_detector": body}
    config = tmp_path / "arm.yaml"
    shared = {"/**": {"ros__parameters": {"joints": ["shoulder", "elbow"]}}}
    for content, said in ((shared, 0), (shared | {"left/other": body}, 0), (shared | other, 1)):
        config.write_text(json.dumps(content))
        command = ["replay", *arguments(files)[:3], "--config", str(config)]
        assert main(command) in (0, 1)
        assert capsys.readouterr().err.count("left/contact_detector: not read") == said


CONFIGURATIONS = {
    "another section": (
        "passivity_controller:\n  ros__parameters: {joints: [a]}\n",
        "has no section 'contact_detector' or '/**'; its sections are passivity_controller",
    ),
    "joints are a number": (
        "contact_detector:\n  ros__parameters: {joints: 0}\n",
        "joints is 0; give a list",
    ),
    "a misspelt parameter": (
        "contact_detector:\n  ros__parameters: {contact_treshold: [1.0]}\n",
        "no parameter 'contact_treshold'; the nearest are contact_threshold",
    ),
    "no YAML": ("a: b: c\n", "is not YAML (line 1: mapping values are not allowed"),
    "aliases": (
        "a: &a [1.0]\ncontact_detector:\n  ros__parameters: {contact_threshold: *a}\n",
        "has a YAML alias (*name); write the values out",
    ),
}


@pytest.mark.parametrize(("text", "says"), CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_messages_on_a_parameter_file(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    path = tmp_path / "nope.yaml"
    if text is not None:
        path.write_text(text)
    assert main(["replay", *arguments(files)[:3], "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"rbd-control: {path}: ")
    assert says in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay"],
        ["replay", "log.csv", "--urdf", "x", "--lock", "elbow=much"],
        ["demo", "--duration", "nan"],
        ["monitor", "--detector", "left//contact_detector"],
        ["view", "--namespace", "left", "2nd"],
    ],
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "usage: rbd-control" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["another.csv"], ["--no-such-option"]])
def test_an_unknown_argument_shows_the_usage_of_its_sub_command(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["check", "log.csv", *more])
    err = capsys.readouterr().err
    assert err.startswith("usage: rbd-control check ")
    assert err.endswith(
        f"rbd-control check: error: unknown option, or one argument too many: {more[0]}\n"
    )


def test_names_of_ros_may_have_slashes_at_their_ends() -> None:
    parser = _parser()
    assert parser.parse_args(["monitor", "--detector", "/a/detector"]).detector == "a/detector"
    assert parser.parse_args(["payload", "--namespace", "/left/"]).namespace == "left"
    assert parser.parse_args(["view", "--namespace", "", "_a/b2"]).namespace == ["", "_a/b2"]
