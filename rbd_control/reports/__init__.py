"""One-file HTML reports of ``replay``, ``calibrate``, ``check`` and ``demo``.

All numbers in a report come from the result of the command as plain values, which ``--json`` writes
("the JSON"). Only the curves come from the arrays from which the JSON was made. See
docs/reports.md.
"""
