"""``python -m bench.fuzz``: fuzzed inputs for the running nodes and for the command line.

After the inputs the fuzzer checks that nodes and commands have handled them correctly. Results go
to ``fuzz.json`` in the folder that ``--report`` names; the inputs of each new failure go to its
sub-folder ``fuzz_failures``, for ``--replay``. The exit code is 1 when anything failed.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.fuzz import sheet
from bench.fuzz.file_session import fuzz_files, repeat_file
from bench.fuzz.plan import SHARES
from bench.fuzz.result import Failure, FileResult, WireResult, load_bursts
from bench.fuzz.session import Limits, fuzz_wire, repeat_wire
from bench.progress import progress

INPUTS, FILES = 100_000, 5_000
"""Default number of inputs over the wire, and of files for the command line."""

GROWTH = 32.0
"""Largest growth of a node's memory after the first tenth of its inputs [MB]."""

QUIET = 10.0
"""Period of progress lines if the console is not a terminal [s]."""

WIDTH = 150


def main(arguments: Sequence[str]) -> int:
    """Fuzz, or replay a saved failure; print and write the results.

    Returns:
        Exit code: 0, or 1 when anything failed.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.inputs < 0 or given.files < 0 or not given.minutes > 0.0:
        parser.error("give inputs and files of at least 0, and minutes above 0")
    # SIGTERM raises KeyboardInterrupt, so that the nodes are ended before this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(width=WIDTH, highlight=False)
    failures = given.report / "fuzz_failures"
    with progress(console, QUIET) as show:
        if given.replay is not None:
            return _repeat(given.replay, failures, console, show)
        seconds = 60.0 * given.minutes
        wire = files = None
        if given.inputs:
            limits = Limits(given.inputs, seconds)
            wire = fuzz_wire(given.seed, limits, failures, show, tuple(given.only))
            wire.failures += growth_failures(wire)
        if given.files:
            files = fuzz_files(given.seed, given.files, seconds, failures, show)
    write(wire, files, given.report, console)
    return 1 if any(each and each.failures for each in (wire, files)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of all choices (1)")
    parser.add_argument(
        "--inputs", type=int, default=INPUTS, metavar="N", help=f"inputs over the wire ({INPUTS})"
    )
    parser.add_argument(
        "--files",
        type=int,
        default=FILES,
        metavar="N",
        help=f"files for the command line ({FILES})",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        metavar="M",
        help="longest time for the inputs, and for the files; no limit",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=tuple(SHARES),
        metavar="KIND",
        help=f"inputs of this kind only; may be repeated. Kinds are {'; '.join(SHARES)}",
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="send the saved inputs of a failure again"
    )
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    return parser


def _repeat(path: Path, failures: Path, console: Console, show: sheet.Show) -> int:
    """Repeat a failure; 1 when it fails again."""
    about = json.loads(path.read_text(encoding="utf-8"))
    console.print(f"{about['what']}: {about['detail']}", markup=False)
    if "content" in about:
        done, what, detail = repeat_file(about)
        console.print(f"rbd-control {' '.join(about['arguments'])}", markup=False)
        console.print(done.trace or done.error, markup=False)
        console.print(f"{what}: {detail}" if what else "no failure", markup=False)
        return 1 if what else 0
    _, bursts = load_bursts(path)
    result = repeat_wire(bursts, failures / "replayed", show)
    if not result.failures:
        console.print("no failure")
        return 0
    console.print(sheet.failures_table(result.failures))
    for failure in result.failures:
        console.print(failure.trace, markup=False)
    return 1


def growth_failures(result: WireResult) -> list[Failure]:
    """Return a failure for each node whose memory grew by more than :data:`GROWTH`."""
    grown = {name: sheet.growth_of(node) for name, node in result.nodes.items()}
    return [
        Failure("growth", name, f"{growth:.1f} MB, {GROWTH:g} MB are allowed")
        for name, growth in grown.items()
        if growth > GROWTH
    ]


def write(
    wire: WireResult | None, files: FileResult | None, folder: Path, console: Console
) -> None:
    """Print the tables, and write all numbers to ``folder``.

    Args:
        wire: results of the inputs over the wire; None if there were none.
        files: results of the files for the command line; None if there were none.
        folder: folder of ``fuzz.json``; it is created if it does not exist.
        console: console for the tables.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {}
    if wire is not None:
        content["wire"] = sheet.wire_json(wire)
        console.print(sheet.inputs_table(wire), "", sheet.nodes_table(wire), "")
        console.print(sheet.summary(wire), markup=False)
        if wire.failures:
            console.print(sheet.failures_table(wire.failures))
        console.print()
    if files is not None:
        content["files"] = sheet.files_json(files)
        console.print(sheet.files_table(files))
        console.print(
            f"{files.files} files in {files.seconds:.0f} s; {len(files.failures)} failures; "
            f"memory of a worker grew by {files.growth:.1f} MB"
        )
        if files.failures:
            console.print(sheet.failures_table(files.failures))
    text = json.dumps(content, indent=1, default=str)
    (folder / "fuzz.json").write_text(text + "\n", encoding="utf-8")
    console.print(f"written to {folder}: fuzz.json", markup=False)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
