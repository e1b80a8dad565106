"""Seeded fuzzing of the running nodes and of the command line: ``python -m bench.fuzz``."""
