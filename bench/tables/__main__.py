"""``python -m bench.tables [source ...]``: print the tables of all sources, or of some.

A source is a paper or a thesis. Every module of this folder with a function ``tables() ->
list[Table]`` is named after its source. A module that takes longer, or needs more packages, sets
``ON_REQUEST = True``; its tables are printed only if it is named.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

from rich.console import Console

import bench.tables


def main(chosen: list[str]) -> None:
    """Print the tables of the sources ``chosen``.

    Without ``chosen``, the tables of all sources without ``ON_REQUEST`` are printed.
    """
    names = [module.name for module in iter_modules(bench.tables.__path__)]
    modules = {name: import_module(f"bench.tables.{name}") for name in names if name != "__main__"}
    sources = {name: module.tables for name, module in modules.items() if hasattr(module, "tables")}
    unknown = sorted(set(chosen) - set(sources))
    if unknown:
        sys.exit(f"no tables of {', '.join(unknown)}; sources are {', '.join(sources)}")
    usual = [name for name in sources if not getattr(modules[name], "ON_REQUEST", False)]
    console = Console(width=120)
    for name in chosen or usual:
        for table in sources[name]():
            console.print(table, "")


if __name__ == "__main__":
    main(sys.argv[1:])
