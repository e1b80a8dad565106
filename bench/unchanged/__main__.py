"""``python -m bench.unchanged``: record the results of the package, or compare with a recording.

Inputs are fixed or drawn from seeds. ``record`` writes the results of the present code to a folder.
``compare`` computes them again, prints all differences, and ends with exit code 1 if there is any.
Numbers are compared to the last bit, which needs the same processor and the same versions of Python
packages. The parts are:

commands: replay, check and calibrate on recordings; controller: random orders and faults;
detector: random parameters and pushes; guard: random stops; ros: interfaces of the nodes;
export: C files.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path

from bench.unchanged.store import MOST_LINES, Case, differences, load, save
from rbd_control.startup.standard_streams import use_one_thread

PARTS = ("commands", "controller", "detector", "guard", "ros", "export")
"""Modules of this package with a function ``cases``."""


def main(arguments: Sequence[str]) -> int:
    """Record or compare the parts that the arguments name; return 1 after any difference."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.unchanged",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the results")
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder of further recordings and URDFs; may be repeated",
    )
    parser.add_argument(
        "--only", choices=PARTS, action="append", metavar="PART", help="part; may be repeated"
    )
    given = parser.parse_args(arguments)
    use_one_thread()  # before NumPy is imported by the parts
    found = 0
    for part in given.only or PARTS:
        begin = time.perf_counter()
        cases = dict(_cases(part)(given.data))
        if given.action == "record":
            save(given.folder, part, cases)
        else:
            found += _report(part, load(given.folder, part), cases)
        print(f"{part}: {len(cases)} cases, {time.perf_counter() - begin:.0f} s", flush=True)
    if given.action == "compare":
        print(f"{found} differences" if found else "no difference")
    return int(found > 0)


def _cases(part: str) -> Callable[[Sequence[Path]], Iterator[tuple[str, Case]]]:
    cases: Callable[[Sequence[Path]], Iterator[tuple[str, Case]]]
    cases = import_module(f"bench.unchanged.{part}").cases
    return cases


def _report(part: str, old: dict[str, Case], new: dict[str, Case]) -> int:
    """Print the differences of a part; return their number."""
    count = 0
    for name, lines in groupby(differences(old, new), lambda each: each[0]):
        texts = [text for _, text in lines]
        count += len(texts)
        print(f"{part}: {name}")
        for text in texts[:MOST_LINES]:
            print(f"  {text}")
        if len(texts) > MOST_LINES:
            print(f"  and {len(texts) - MOST_LINES} more")
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
