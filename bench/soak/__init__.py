"""The nodes at work for an hour, with faults, judged: ``python -m bench.soak``."""
