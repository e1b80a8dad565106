"""Latency, losses, load and memory of the nodes in a loop at 1 kHz: ``python -m bench.loop``."""
