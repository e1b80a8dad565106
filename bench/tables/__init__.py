"""The published tables of the sources beside what this package computes."""
