"""``python -m bench.compare [arm ...]``: compare control laws in MuJoCo and write the results.

Results go to ``compare.md``, ``compare.png`` and ``compare.json`` in the folder that ``--report``
names. The hour of rest takes most of the time; ``--rest 0`` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from bench.compare.identified import Identified, identified
from bench.compare.laws import FIXED, FRICTION_AT, LAMBDA, RATE
from bench.compare.picture import draw
from bench.compare.study import ARMS, PAYLOAD, PIECE, Learning, Tracking, learn, track
from bench.compare.targets import Outcome, outcomes
from bench.speed.sheets import Sheet

SPECIMENS = 5
NOTES = (
    "RMS errors in mrad over time and joints, mean over specimens (min to max), of 20 s at up to "
    "half the velocity limits, 1 kHz. Plant: MuJoCo, each mass 5 % wrong, friction within 30 % of "
    "the friction model, Stribeck effect, encoders, filtered velocities, noisy motors. Gains: "
    f"all laws use D (e_dot + Lambda e), with Lambda {LAMBDA:g} 1/s and D = {RATE:g} 1/s times "
    "the mean of diag(M); computed torque uses M in place of its mean. The textbook laws "
    "compensate friction at v_d, our Slotine-Li law at v_r = v_d - Lambda e."
)


def main(arguments: Sequence[str]) -> None:
    """Simulate the arms that the arguments name, print the tables and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("arms", nargs="*", metavar="arm", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--report", type=Path, default=Path("report"), metavar="FOLDER")
    parser.add_argument("--rest", type=float, default=3600.0, metavar="SECONDS")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.arms) - set(ARMS))
    if unknown:
        sys.exit(f"no arm {', '.join(unknown)}; arms are {', '.join(ARMS)}")
    if given.rest != 0.0 and not 3.0 * PIECE <= given.rest < float("inf"):
        sys.exit(f"--rest is {given.rest:g} s; give 0, or at least {3.0 * PIECE:g}")
    arms = given.arms or ARMS
    console = Console(width=130, highlight=False)
    results: list[Tracking] = []
    learned: list[Learning] = []
    found: list[Identified] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(arms) * (2 * SPECIMENS + 1))
        for arm in arms:
            for specimen in range(SPECIMENS):
                progress.update(task, description=f"{arm}: laws")
                results += track(arm, specimen, 20.0)
                progress.advance(task)
            for specimen in range(SPECIMENS):
                progress.update(task, description=f"{arm}: calibrated")
                found.append(identified(arm, specimen, 20.0))
                progress.advance(task)
            progress.update(task, description=f"{arm}: payload and rest")
            learned.append(learn(arm, SPECIMENS, 40.0, given.rest))
            progress.advance(task)
    write(results, learned, found, given.report, console)


def write(
    results: Sequence[Tracking],
    learned: Sequence[Learning],
    calibrated: Sequence[Identified],
    folder: Path,
    console: Console,
) -> None:
    """Print the tables; write them, the picture and all numbers to ``folder``.

    Args:
        results: tracking errors of each law on each specimen.
        learned: results with an unknown payload, one per arm.
        calibrated: results with and without the file of ``calibrate``, one per specimen.
        folder: folder of the files; it is created if it does not exist.
        console: console for the tables.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = outcomes(results, learned)
    sheets = [_errors(results), _identified(calibrated), _payloads(learned), _targets(found)]
    for sheet in sheets:
        console.print(sheet.rich(), "")
    text = "\n".join(["# Control laws compared\n", *(sheet.markdown() for sheet in sheets)])
    (folder / "compare.md").write_text(text, encoding="utf-8")
    numbers = as_json(results, learned, calibrated, found)
    (folder / "compare.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    draw(results, learned, folder / "compare.png")
    console.print(f"written to {folder}: compare.md, compare.png, compare.json")


def as_json(
    results: Sequence[Tracking],
    learned: Sequence[Learning],
    calibrated: Sequence[Identified],
    found: Sequence[Outcome],
) -> dict[str, Any]:
    """Return all numbers of the comparison as plain values for ``json``; errors in rad."""
    return {
        "tracking": [asdict(result) for result in results],
        "identified": [asdict(case) for case in calibrated],
        "payload": [
            {
                **{k: v for k, v in asdict(case).items() if k != "estimate"},
                "com": case.estimate.com.tolist(),
                "inertia": case.estimate.inertia.tolist(),
            }
            for case in learned
        ],
        "outcomes": [{**asdict(outcome), "met": outcome.met} for outcome in found],
    }


def _errors(results: Sequence[Tracking]) -> Sheet:
    sections = []
    for arm in dict.fromkeys(result.arm for result in results):
        rows = []
        for law in FIXED:
            cells = []
            for friction_at in FRICTION_AT:
                key = (arm, law, friction_at)
                errors = [1e3 * r.error for r in results if (r.arm, r.law, r.friction_at) == key]
                cells.append(f"{np.mean(errors):.2f} ({min(errors):.2f} to {max(errors):.2f})")
            rows.append([f"{arm}: {law}", *cells])
        sections.append(rows)
    return Sheet("Tracking errors", ["", *FRICTION_AT], sections, NOTES)


def _identified(calibrated: Sequence[Identified]) -> Sheet:
    rows = []
    for arm in dict.fromkeys(case.arm for case in calibrated):
        cases = [case for case in calibrated if case.arm == arm]
        errors = 1e3 * np.array([case.error for case in cases])
        residuals = np.array([case.residual for case in cases])
        columns = [*errors.T, *residuals.T]
        cells = [f"{c.mean():.3g} ({c.min():.3g} to {c.max():.3g})" for c in columns]
        rows.append([arm, *cells])
    header = ["", "error, URDF", "error, arm.yaml", "residual, URDF", "residual, arm.yaml"]
    return Sheet(
        "Slotine-Li and the detector by the description alone, and by the file of calibrate",
        header,
        [rows],
        "RMS tracking error in mrad, RMS residual without contact in N·m, mean over specimens (min "
        "to max); calibrated on two motions of 20 s, measured on a third.",
    )


def _payloads(learned: Sequence[Learning]) -> Sheet:
    rows = []
    for case in learned:
        rest = [1e3 * error for error in case.rest_error]
        rows.append(
            [
                case.arm,
                f"{1e3 * case.fixed[-1]:.2f}",
                f"{1e3 * case.adaptive[0]:.2f}",
                f"{1e3 * case.adaptive[-1]:.2f}",
                f"{case.mass[-1]:.2f}",
                f"{rest[1]:.3f}" if rest else "-",
                f"{rest[-1]:.3f}" if rest else "-",
                f"{case.rest_mass[-1]:.2f}" if rest else "-",
            ]
        )
    header = ["", "fixed", "adaptive\nfirst 5 s", "adaptive\nlast 5 s", "mass", "rest\n2nd minute"]
    header += ["rest\nlast minute", "mass\nthen"]
    return Sheet(
        f"Slotine-Li with an unknown payload of {PAYLOAD:g} kg",
        header,
        [rows],
        "RMS errors in mrad, masses in kg as learned; 40 s of motion, then rest.",
    )


def _targets(found: Sequence[Outcome]) -> Sheet:
    rows = [
        [
            outcome.text,
            f"{outcome.measured:.3f}",
            "" if outcome.limit is None else f"{outcome.limit:g}",
            "" if outcome.limit is None else "yes" if outcome.met else "NO",
        ]
        for outcome in found
    ]
    return Sheet("Ratios", ["", "measured", "at most", "met"], [rows], "Medians over specimens.")


if __name__ == "__main__":
    main(sys.argv[1:])
