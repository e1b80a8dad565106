"""The report of a run of the demo as one HTML file."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rbd_control.nodes.demo.result import RMS_LIMIT, DemoResult
from rbd_control.reports.demo_page import demo_page
from rbd_control.reports.html import HtmlOutput, analysed_now


def demo_html(file: str | Path | None, folder: str | Path | None) -> HtmlOutput:
    """Return the HTML files that the demo is to write; call it before the demo runs.

    The function checks that ``file`` can be written, and creates its folder. It neither checks nor
    creates ``folder``.

    Args:
        file: file of the option ``--html``; None without this option.
        folder: folder of the option ``--report``, which gets ``demo.html``; None without it.

    Raises:
        RbdControlError: if ``file`` is given and the extra ``report`` (Bokeh) is not installed.
        OSError: naming ``file``, if it cannot be written.
    """
    return HtmlOutput.of(
        None if file is None else Path(file), None if folder is None else Path(folder), "demo.html"
    )


def write_demo_html(result: DemoResult, html: HtmlOutput, console: Console) -> None:
    """Write the report of a run; do nothing if no file is requested.

    Args:
        result: the scored run.
        html: the requested files, see :func:`demo_html`.
        console: prints the paths of the files.

    Raises:
        OSError: naming the file that cannot be written.
    """
    if not html.is_wanted:
        return
    log = result.log
    page = demo_page(
        result.to_json(),
        (log.residual.times - result.first, log.residual.values / log.thresholds),
        (log.tracking_error.times - result.first, log.tracking_error.values),
        RMS_LIMIT,
        analysed_now([], "arm7", Path("config/demo.yaml")),
    )
    html.write(page, console)
