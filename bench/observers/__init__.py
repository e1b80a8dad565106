"""Comparison of the momentum observers at equal false-alarm rate."""
