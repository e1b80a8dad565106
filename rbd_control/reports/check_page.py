"""The report of ``rbd-control check``: findings, efforts of each joint, weakest pushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rbd_control.identification.findings import LEVELS
from rbd_control.reports.page import (
    Analysed,
    Bar,
    Curve,
    Level,
    Page,
    Panel,
    PanelGrid,
    Part,
    Row,
    Section,
    Table,
    number,
    of_units,
)

Array = NDArray[np.float64]
Json = Mapping[str, Any]

MOST_POINTS = 1500
"""Maximum number of plotted points of one joint."""

OUTCOMES: dict[Level, str] = {
    "good": "nothing is wrong",
    "doubtful": "usable; read the lines marked LOOK",
    "bad": "do not rely on this recording before the lines marked WRONG are settled",
}
"""Outcome of a check as text, by the worst level of its findings."""


def check_page(found: Json, evidence: tuple[Array, Array] | None, analysed: Analysed) -> Page:
    """Return the report of a check.

    Args:
        found: the JSON of the check (:meth:`~rbd_control.check.run.CheckResult.to_json`).
        evidence: torque that the described arm needs [N·m or N] and recorded effort, converted to
            torque by the declared kind and gain, (n, nv) each for n samples, both without the part
            that friction explains; None if the arm cannot be checked.
        analysed: the input of the analysis.
    """
    level = cast(Level, found["level"])
    bad = tuple(f"{x['topic']}: {x['text']}" for x in found["lines"] if x["level"] == "bad")
    parts: list[Part] = [lines_table(found)]
    if found["efforts"]:
        parts.append(effort_table(found))
    if evidence is not None:
        parts.append(_evidence(*evidence, [one["joint"] for one in found["efforts"]]))
    sections = [Section("What the recording is", tuple(parts))]
    if found["weakest_pushes"]:
        note = f"{PUSH_NOTE} Thresholds: {found['thresholds']}."
        pushes = replace(push_table(found), note=note)
        sections.append(Section("Weakest push that is found", (pushes,)))
    return Page(
        title=f"Check of {Path(found['recording']).name}",
        level=level,
        verdict=f"{OUTCOMES[level].capitalize()}.",
        warnings=bad,
        notes=(),
        facts=(*analysed.facts(), ("duration", number(found["duration"], 1, " s"))),
        sections=tuple(sections),
    )


def lines_table(found: Json) -> Table:
    """Return the lines of a check, the worst first."""
    ranked = sorted(found["lines"], key=lambda line: LEVELS.index(line["level"]), reverse=True)
    rows = tuple(Row((line["topic"], line["text"]), line["level"]) for line in ranked)
    headings = ("about", "found")
    return Table(
        "lines of the check", headings, rows, is_text=True, no_wrap=headings[:1], is_marked=True
    )


_FRICTION = ("coulomb", "viscous", "offset")


def effort_table(found: Json) -> Table:
    """Return the effort of each joint."""
    rows = tuple(
        Row(
            (
                one["joint"],
                one["kind"].replace("_", " "),
                _scale(one),
                one["confidence"],
                *(number(one[name] if _is_known(one) else None) for name in _FRICTION),
                number(one["misfit"]),
            ),
            one["level"],
        )
        for one in found["efforts"]
    )
    units = [one["unit"] for one in found["efforts"]]
    friction = ("Coulomb [N·m]", "viscous [N·m·s/rad]", "constant [N·m]", "unexplained [N·m]")
    return Table(
        of_units(
            "effort of each joint; scale: effort per torque of the model with these findings", units
        ),
        ("joint", "effort is", "scale", "confidence", *friction),
        rows,
        left=("joint", "effort is"),
        no_wrap=("joint", "scale"),
        is_marked=True,
    )


def _is_known(one: Json) -> bool:
    """Return whether the motion tells the torque of a joint from its friction."""
    return one["confidence"] != "none" and one["scale"] is not None


def _scale(one: Json) -> str:
    if not _is_known(one):
        return "-"
    deviation = one["deviation"]
    return f"{one['scale']:.3g}" + ("" if deviation is None else f" ± {deviation:.1g}")


def _evidence(need: Array, effort: Array, joints: Sequence[str]) -> PanelGrid:
    step = -(-len(need) // MOST_POINTS) or 1
    panels = []
    for i, joint in enumerate(joints):
        x, y = need[::step, i], effort[::step, i]
        ends = np.array([x.min(initial=0.0), x.max(initial=0.0)])
        curves = (
            Curve("as described", ends, ends, "limit", "dashed"),
            Curve("recorded", x, y, "residual", "points"),
        )
        panels.append(Panel(joint, curves, "torque of the model [N·m]", "effort"))
    return PanelGrid(
        tuple(panels),
        "Recorded effort against the torque that the described arm needs, both without the part "
        "that friction (Coulomb, viscous, constant) explains. Efforts that are torques of the arm "
        "as described lie on the dashed line; another slope is another unit or a reversed sign.",
    )


def push_table(found: Json) -> Table:
    """Return the weakest push on each link; ``-`` for a push that is never found."""
    pushes = found["weakest_pushes"]
    known = [push[which] for push in pushes for which in ("best", "worst")]
    most = max((force for force in known if force is not None), default=1.0)
    rows = tuple(
        Row(
            (
                push["link"],
                *(_bar(push[which], most) for which in ("best", "worst")),
                *(number(force, 1) for force in push["axes"]),
            )
        )
        for push in pushes
    )
    title = "weakest detectable push at a link's origin [N]"
    headings = ("link", "best", "worst", "x", "y", "z")
    return Table(title, headings, rows, left=headings[:1], no_wrap=headings[:1])


PUSH_NOTE = (
    "best, worst: in the directions that need the smallest and the largest force; x, y, z: along "
    "the axes of the root; -: never detected. Medians over the poses; a push must last longer "
    "than the observer's delay. After a start thresholds are higher, until the friction of the day "
    "is learned."
)
"""Explanation of the columns of :func:`push_table`."""


def _bar(force: float | None, most: float) -> Bar:
    return Bar(number(force, 1), 1.0 if force is None else force / most)
