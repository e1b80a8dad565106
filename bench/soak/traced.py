"""Execution of a node with tracing of Python's memory allocations, which prints their growth.

Start it as ``python -m bench.soak.traced ... -- --traced=MODULE``, with the arguments of the node
for ``...``. Growth of the resident memory that is not listed is caused by C or C++ code.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import tracemalloc
from runpy import run_module

from bench.loop.usage import resident

SETTLING, EVERY = 30.0, 30.0
"""Time until the first snapshot, and period of the following snapshots [s]."""

SHOWN = 6
"""Number of printed places of allocation."""

FRAMES = 4
"""Number of stored stack frames per allocation."""

PREFIX = "--traced="


def report() -> None:
    """Print the growth of memory since the first snapshot every :data:`EVERY` seconds, for ever."""
    time.sleep(SETTLING)
    first, begin, before = tracemalloc.take_snapshot(), time.monotonic(), resident(os.getpid())
    while True:
        time.sleep(EVERY)
        grown = tracemalloc.take_snapshot().compare_to(first, "lineno")
        passed, now = time.monotonic() - begin, resident(os.getpid())
        total = sum(each.size_diff for each in grown) / 1024.0
        memory = f"{now - before:+d} kB resident, {total:+.1f} kB by Python"
        print(f"traced: after {passed:.0f} s: {memory}", flush=True)
        for each in grown[:SHOWN]:
            frame = each.traceback[-1]
            size = each.size_diff / 1024.0
            print(
                f"traced: {size:+.1f} kB, {each.count_diff:+d} objects: "
                f"{frame.filename}:{frame.lineno}",
                flush=True,
            )


def main() -> None:
    """Run the node whose module the last argument of the process names, with tracing."""
    module = sys.argv.pop().removeprefix(PREFIX)
    if sys.argv and sys.argv[-1] == "--":
        sys.argv.pop()
    tracemalloc.start(FRAMES)
    threading.Thread(target=report, daemon=True).start()
    run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
