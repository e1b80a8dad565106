"""Results of ``rbd-control replay``, ``check`` and ``calibrate`` on recordings."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.unchanged.store import Case
from rbd_control.cli.main import main

ROOT = Path(__file__).parents[2]
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
_TIMES = re.compile(r"\d+(\.\d+)? s of computation|rbd_control \d+\.\d+\.\d+|\(version [^)]*\)")
"""Texts that depend on the time or the version."""


class Recorded(NamedTuple):
    """A recording, and the options that fit it."""

    name: str
    path: Path
    urdf: str
    config: str = ""
    options: tuple[str, ...] = ()
    last_joint: str = ""
    """Last joint, if the recording is free of contact and long enough for a calibration."""


def run(arguments: Sequence[object], folder: Path) -> Case:
    """Run ``rbd-control`` in this process; return its exit code, its output and its files.

    Args:
        arguments: arguments of the command; outputs go to ``folder``.
        folder: an empty folder.
    """
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: object = main([str(each) for each in arguments])
        except SystemExit as end:
            code = end.code
    case: Case = {"exit code": code}
    texts = {"stdout": out.getvalue(), "stderr": err.getvalue()}
    for path in sorted(folder.iterdir()):
        texts[path.name] = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        plain = _without_paths(text, (*arguments, folder))
        case[name] = json.loads(plain) if name.endswith(".json") else plain.splitlines()
    return case


def _without_paths(text: str, arguments: Sequence[object]) -> str:
    """Return a text in which absolute paths are file names, and times and versions are removed."""
    folders = {str(each.parent) for each in arguments if isinstance(each, Path)}
    folders |= {str(Path(each).parent) for each in arguments if isinstance(each, str)}
    for folder in sorted(filter(lambda each: each.startswith("/"), folders), key=len)[::-1]:
        text = text.replace(f"{folder}/", "")
    # A folder of results is named differently in each run, and so are the lines that wrap after it.
    text = re.sub(r"\btmp[a-z0-9_]{8}\b", "tmp", text)
    return _TIMES.sub("", text)


def cases(data: Sequence[Path]) -> Iterator[tuple[str, Case]]:
    """Yield the results of all commands on the recordings of the tests and of ``data``."""
    for each in recordings(data):
        settings: dict[str, tuple[object, ...]] = {"": ("--urdf", each.urdf)}
        if each.config:
            settings[" with parameters"] = (*settings[""], "--config", each.config)
        for name, options in settings.items():
            curve = ("--curve",) if name and "push" in each.name else ()
            extra = (*each.options, *curve)
            yield _run(f"replay {each.name}{name}", "replay", each.path, *options, *extra)
            yield _run(f"check {each.name}{name}", "check", each.path, *options)
        plain = (*settings[""], *each.options)
        yield _run(f"calibrate {each.name}", "calibrate", each.path, *plain)
        if each.last_joint:
            for extra in (
                ("--observer", "momentum", "--gain", 30, "--false-alarms", 10),
                ("--effort", "current", "--drive-gain", f"{each.last_joint}=1±0.1"),
                ("--effort", "torque_without_gravity", "--trust-effort-kind"),
            ):
                name = f"calibrate {each.name} {' '.join(map(str, extra))}"
                yield _run(name, "calibrate", each.path, *settings[""], *extra)
    for folder in data:
        free = sorted(folder.glob("sim_free_*"))
        if free:
            options = (*free[1:], "--urdf", *folder.glob("panda*.urdf"))
            yield _run(f"calibrate {folder.name}/sim_free_*", "calibrate", free[0], *options)
    yield _run("replay wrong arm", "replay", ROOT / "test/data/free", "--urdf", "arm7")


def _run(
    name: str,
    command: str,
    path: Path,
    *options: object,
) -> tuple[str, Case]:
    labels = path.with_name(f"{path.stem}_labels.csv")
    with TemporaryDirectory() as folder:
        outputs: list[object] = ["--json", Path(folder) / "result.json"]
        if command == "calibrate":
            outputs += ["--out", Path(folder) / "arm.yaml"]
        elif command == "replay" and labels.exists():
            outputs += ["--labels", labels]
        return name, run([command, path, *options, *outputs], Path(folder))


@cache
def _workspace() -> TemporaryDirectory[str]:
    return TemporaryDirectory()


def recordings(data: Sequence[Path]) -> Iterator[Recorded]:
    """Yield the recordings in the folder of the tests and in ``data``, with their options.

    The arm is that of a URDF in the folder of the recording or above whose name begins like the
    name of the recording, else a published URDF, else the Panda of the tests.
    """
    for folder in (ROOT / "test/data", *data):
        found = [*folder.rglob("*.mcap"), *folder.rglob("*.db3"), *folder.rglob("touch_*.csv")]
        for file in sorted(found):
            if file.stem.endswith("_labels"):
                continue
            path = file.parent if (file.parent / "metadata.yaml").exists() else file
            name, config = file.stem, ""
            urdf = _published("ur_description/urdf/ur10_robot.urdf") if "ur10" in name else ""
            urdf = urdf or str(next(iter(sorted(folder.glob("panda*.urdf"))), "")) or _panda()
            if not urdf:
                continue
            if file.suffix == ".mcap":
                config = str(ROOT / "config/panda_mujoco.yaml")
            elif "ur10" not in name:
                config = _with_hand() if "touch" in name else str(ROOT / "config/panda_franka.yaml")
            options = ("--trust-effort-kind",) if "ur10" in name else ()
            joint = "wrist_3_joint" if "ur10" in name else "panda_joint7"
            is_free = name in ("free", "panda_exciting_trajectory", "ur10_exciting_trajectory")
            last = joint if is_free else ""
            yield Recorded(f"{folder.name}/{name}", path, urdf, config, options, last)


def _with_hand() -> str:
    """Write the parameters of the real Panda with the payload of its hand; return their path."""
    text = (ROOT / "config/panda_franka.yaml").read_text(encoding="utf-8")
    arm, hand = (
        "    effort_kind: torque\n",
        "    payload_mass: 0.73\n    payload_com: [0.0, 0.0, 0.14]\n",
    )
    file = Path(_workspace().name) / "panda_with_hand.yaml"
    file.write_text(text.replace(arm, arm + hand, 1), encoding="utf-8")
    return str(file)


def _published(path: str) -> str:
    """Return the path of a URDF of the package ``example-robot-data``; empty if it is missing."""
    try:
        return str(distribution("example-robot-data").locate_file(f"{ROBOTS}/{path}"))
    except PackageNotFoundError:
        return ""


def _panda() -> str:
    """Write the URDF of a Panda without hand; return its path, empty if there is no such URDF."""
    from bench.contacts.arms import arm

    if not _published(""):
        return ""
    file = Path(_workspace().name) / "panda_arm.urdf"
    file.write_text(arm("panda").urdf, encoding="utf-8")
    return str(file)
