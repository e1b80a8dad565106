"""One-file HTML reports of ``replay``, ``calibrate``, ``check`` and ``demo``.

The numbers on a page are those of the command's JSON; only the curves come from the arrays behind
it. See docs/reports.md.
"""
