"""The momentum observers side by side, at equal false-alarm rate."""
