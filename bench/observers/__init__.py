"""Comparison of the momentum observers by their detection delay, at equal false-alarm rate."""
