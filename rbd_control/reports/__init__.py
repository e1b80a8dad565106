"""One-file HTML reports of ``replay``, ``calibrate``, ``check`` and ``demo``.

All numbers on a page come from the JSON of the command; only the curves come from the arrays from
which the JSON was made. See docs/reports.md.
"""
