"""Content of the HTML file of a report, without a browser."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import numpy as np
import pytest
from damage import sound
from report_pages import (
    ANALYSED,
    EVIL,
    ONSETS,
    curves,
    page,
    residuals,
)

from rbd_control.cli.main import main
from rbd_control.playback.report import AFTER
from rbd_control.reports.html import PlotLibrary, html_of

LARGEST = 2_000_000
"""Size of the report of a minute at 1 kHz with ten contacts [bytes]."""


@pytest.fixture(scope="module")
def library() -> PlotLibrary:
    pytest.importorskip("bokeh", reason="the extra `report` is not installed")
    return PlotLibrary.load()


@pytest.fixture(scope="module")
def text(library: PlotLibrary) -> str:
    return html_of(page(), library)


@pytest.fixture
def without_bokeh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bokeh", "bokeh.resources"):
        monkeypatch.setitem(sys.modules, name, None)


def rows(text: str) -> list[list[str]]:
    """Return the texts of all cells of all tables."""
    every = [
        [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", row)]
        for row in re.findall(r"<tr.*?</tr>", text)
    ]
    return [row for row in every if row]


def test_a_minute_at_1_khz_fits_into_two_megabytes(text: str) -> None:
    assert len(text.encode()) < LARGEST


def test_names_and_messages_cannot_run(text: str) -> None:
    assert EVIL not in text
    shown = text.count(escape(EVIL))
    assert shown > len(ONSETS)  # heading, warning, parameter, and in each event joint and link
    assert re.search(r"alert\(1\)\\u003c/script", text), "the title of the panel"


def test_the_file_forbids_every_access_to_the_network(text: str) -> None:
    assert "default-src 'none'" in text
    head, _, _ = text.partition("<!--")
    assert not re.search(r"""(src|href|url)\s*[=(]\s*['"]?https?:""", head)
    assert "<link" not in text
    assert not re.search(r"<script[^>]*\ssrc", text)


def test_the_numbers_are_those_of_the_json(text: str) -> None:
    shown = rows(text)
    events = [row for row in shown if len(row) == 9]
    assert len(events) == len(ONSETS)
    for k, (row, onset) in enumerate(zip(events, ONSETS, strict=True)):
        assert row[0] == str(k + 1)
        assert [float(cell) for cell in row[1:4]] == [onset, onset + 0.008, onset + 0.5]
        assert row[4] == ("collision" if k == 1 else "contact")
        assert row[5:8] == [EVIL, f"link_5 70%, or {EVIL}", "12.34"]
        unsettled = ", not settled" if k < 2 else ""
        assert row[8] == ("not observable" if k == 2 else f"1.0 -2.5 3.0{unsettled}")
    residual = next(row for row in shown if row[:1] == ["joint_3"])
    assert residual == ["joint_3", "0.12", "-0.25", "4.32", "1.50", "3.4 %", "-"]


def test_no_peak_is_lost_and_every_sample_stands_around_events() -> None:
    reduced = curves()
    times, values = reduced.series()
    true_times, true_values = residuals()
    assert times.size < 25_000
    assert np.all(np.diff(times) >= 0.0)
    # Values are rounded to 0.001.
    np.testing.assert_allclose(values.max(axis=0), true_values.max(axis=0), atol=6e-4)
    np.testing.assert_allclose(values.min(axis=0), true_values.min(axis=0), atol=6e-4)
    for onset in ONSETS:
        assert reduced.shows_all_of(onset)
        inside = (true_times > onset - 0.25) & (true_times < onset + AFTER - 0.05)
        kept = (times > onset - 0.25) & (times < onset + AFTER - 0.05)
        np.testing.assert_array_equal(times[kept], true_times[inside])
        np.testing.assert_allclose(values[kept], true_values[inside], atol=6e-4)
    assert not reduced.shows_all_of(1.0)


def files(folder: Path) -> list[str]:
    (folder / "two.urdf").write_text(sound.URDF)
    (folder / "log.csv").write_text(sound.csv_text(sound.swing(1.2)))
    (folder / "detector.yaml").write_text(sound.CONFIG)
    arguments = [str(folder / "log.csv"), "--urdf", str(folder / "two.urdf")]
    return [*arguments, "--config", str(folder / "detector.yaml")]


@pytest.mark.usefixtures("without_bokeh")
def test_without_the_extra_one_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert main(["replay", *files(tmp_path), "--html", str(out)]) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert error.count("\n") == 1
    assert "pip install '.[report]'" in error
    assert not out.exists()


@pytest.mark.usefixtures("library")
def test_replay_writes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, folder = tmp_path / "new" / "a.html", tmp_path / "report"
    arguments = ["replay", *files(tmp_path), "--html", str(out), "--report", str(folder)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert f"HTML in {out}" in printed
    assert f"HTML in {folder / 'report.html'}" in printed
    text = out.read_text()
    assert text == (folder / "report.html").read_text()
    assert "1 contact found" in text
    event = next(row for row in rows(text) if len(row) == 9)
    assert float(event[1]) == pytest.approx(0.4, abs=0.05)
    assert ["friction_coulomb", "0.5, 0.3 N·m or N"] in rows(text)  # in the order of the model
    assert str(tmp_path / "log.csv") in text


def test_an_arm_file_is_named_as_the_parameters() -> None:
    """The page said "defaults"."""
    facts = dict(replace(ANALYSED, robot="arm.yaml").facts())
    assert facts["parameters"] == "arm.yaml"
    assert dict(ANALYSED.facts())["parameters"] == "defaults"
