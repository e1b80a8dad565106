"""Run many damaged files through the command line: ``python -m damage --count 5000``."""

from __future__ import annotations

import argparse
import faulthandler
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from damage import Makers, judge, run


def main() -> int:
    """Run the cases, print what goes wrong, and return 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="number of cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.add_argument("--kind", default="", help="only this kind of case")
    parser.add_argument("--keep", action="store_true", help="keep the files of cases that fail")
    arguments = parser.parse_args()
    faulthandler.enable()
    root = Path(tempfile.mkdtemp(prefix="damage_"))
    makers = Makers(root)
    codes: Counter[object] = Counter()
    failed, slowest = 0, (0.0, "")
    begin = time.perf_counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        case = makers.case(seed, arguments.kind)
        # A process that dies leaves the name of the case behind.
        (root / "running").write_text(f"{case.name} {case.arguments}\n")
        outcome = run(case)
        wrong = judge(case, outcome)
        codes[outcome.code] += 1
        slowest = max(slowest, (outcome.seconds, case.name))
        if wrong:
            failed += 1
            print(f"{case.name}: {'; '.join(wrong)}", flush=True)
        if not (wrong and arguments.keep):
            case.remove()
    print(
        f"{arguments.count} cases in {time.perf_counter() - begin:.0f} s, {failed} failed; exit "
        f"codes {dict(codes)}; slowest {slowest[0]:.1f} s ({slowest[1]})"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
