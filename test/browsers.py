"""A headless Chromium for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium(*, draws_3d: bool = True) -> Iterator[Any]:
    """Start a headless Chromium that needs no graphics card, or skip where there is none.

    Args:
        draws_3d: whether it emulates a graphics card, which takes time on flat pages, too.
    """
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    emulated = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    arguments = [*(emulated if draws_3d else ["--disable-gpu"]), "--no-sandbox"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
