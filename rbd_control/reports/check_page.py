"""The report of ``rbd-control check``: findings, efforts of each joint, weakest pushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rbd_control.reports.page import (
    WORDS,
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
)

Array = NDArray[np.float64]
Json = Mapping[str, Any]

MOST_POINTS = 1500
"""Maximum number of plotted points of one joint."""

OUTCOMES: dict[Level, str] = {
    "good": "nothing is wrong",
    "doubtful": "usable; read the yellow lines",
    "bad": "do not rely on this recording before the red lines are settled",
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
    parts: list[Part] = [_lines(found)]
    if found["efforts"]:
        parts.append(_efforts(found))
    if evidence is not None:
        parts.append(_evidence(*evidence, [one["joint"] for one in found["efforts"]]))
    sections = [Section("What the recording is", tuple(parts))]
    if found["weakest_pushes"]:
        sections.append(Section("Weakest push that is found", (_pushes(found),)))
    return Page(
        title=f"Check of {Path(found['recording']).name}",
        level=level,
        verdict=f"{OUTCOMES[level].capitalize()}.",
        warnings=bad,
        notes=(),
        facts=(*analysed.facts(), ("duration", number(found["duration"], 1, " s"))),
        sections=tuple(sections),
    )


def _lines(found: Json) -> Table:
    rows = tuple(
        Row((WORDS[line["level"]], line["topic"], line["text"]), level=line["level"])
        for line in found["lines"]
    )
    return Table("lines of the check", ("level", "about", "found"), rows, is_text=True)


def _efforts(found: Json) -> Table:
    rows = tuple(
        Row(
            (
                one["joint"],
                one["kind"].replace("_", " "),
                _scale(one),
                one["confidence"],
                *(number(one[name]) for name in ("coulomb", "viscous", "offset", "misfit")),
            ),
            level=one["level"],
        )
        for one in found["efforts"]
    )
    headings = ("joint", "effort is", "scale", "confidence", "Coulomb [N·m]")
    more = ("viscous [N·m·s/rad]", "constant [N·m]", "unexplained [N·m]")
    title = "effort of each joint; scale: effort per torque of the model (prismatic joints: N, m)"
    return Table(title, (*headings, *more), rows)


def _scale(one: Json) -> str:
    if one["confidence"] == "none" or one["scale"] is None:
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


def _bar(force: float | None, most: float) -> Bar:
    return Bar("never", 1.0) if force is None else Bar(number(force, 1), force / most)


def _pushes(found: Json) -> Table:
    pushes = found["weakest_pushes"]
    known = [push["best"] for push in pushes if push["best"] is not None]
    known += [push["worst"] for push in pushes if push["worst"] is not None]
    most = max(known, default=1.0)
    rows = tuple(
        Row(
            (
                push["link"],
                *(_bar(push[which], most) for which in ("best", "worst")),
                *("never" if force is None else number(force, 1) for force in push["axes"]),
            )
        )
        for push in pushes
    )
    return Table(
        "weakest push at the origin of a link that is found [N]",
        ("link", "best direction", "worst direction", "x", "y", "z"),
        rows,
        "Best, worst: in the direction in which least and most force is needed; x, y, z: along the "
        "axes of the root. Medians over the poses; a push must last longer than "
        f"the delay of the observer. Thresholds: {found['thresholds']}.",
    )
