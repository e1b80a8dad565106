"""Configuration of the documentation site, which ``make docs`` builds."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

from rbd_control import __version__
from rbd_control.parameters import Parameters

project = "rbd_control"
author = "rbd_control maintainers"
copyright = author
release = version = __version__

# Neither intersphinx nor MathJax: the build and its pages need no network.
extensions = ["myst_parser", "sphinx.ext.autodoc"]

# Headings get the anchors that they have on GitHub, so that a link works in both places.
myst_heading_anchors = 3

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
# Names of types that would be printed as what they stand for, over several lines.
autodoc_type_aliases = {name: name for name in ("Array", "ArrayLike", "Obstacle")}

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["phone.css"]
html_title = f"rbd_control {release}"
html_copy_source = False
html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Register the conversion of docstrings and signatures."""
    app.connect("autodoc-process-docstring", convert_docstring)
    app.connect("autodoc-process-signature", shorten_signature)


def shorten_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None] | None:
    """Return the signature of a parameter object without its fields, which its table lists.

    Of other signatures the wrapper that autodoc leaves around an alias of a type is removed.
    """
    if inspect.isclass(obj) and issubclass(obj, Parameters):
        return "(**parameters)", returned
    if signature is None:
        return None
    return re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature), returned


def convert_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Convert a Google-style docstring to reStructuredText, and list the fields of parameters.

    The extension ``sphinx.ext.napoleon`` is not loaded, because it takes the words before a colon
    in the docstring of an attribute for its type.
    """
    kind = "method" if what in ("attribute", "data", "property") else what
    lines[:] = GoogleDocstring(lines, Config(), app, kind, name, obj, options).lines()
    if inspect.isclass(obj) and issubclass(obj, Parameters):
        lines += ["", *parameter_table(obj)]


def parameter_table(parameters: type[Parameters]) -> list[str]:
    """Return a reStructuredText table of the fields of a parameter object."""
    table = [".. list-table::", "   :header-rows: 1", "   :widths: 30 15 40 15", ""]
    rows = [("parameter", "default", "description", "unit")]
    for item in fields(parameters):
        default = str(list(item.default) if isinstance(item.default, tuple) else item.default)
        description, unit = item.metadata["description"], item.metadata["unit"]
        rows.append((f"``{item.name}``", escaped(default), escaped(description), escaped(unit)))
    for row in rows:
        table += [f"   {mark} - {cell}" for mark, cell in zip("*   ", row, strict=True)]
    return table


def escaped(text: str) -> str:
    """Return ``text`` with the marks of reStructuredText escaped."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)
