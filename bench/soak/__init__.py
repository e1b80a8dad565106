"""Endurance test (soak) of the nodes, an hour of work with faults: ``python -m bench.soak``."""
