"""Speed of the replay of hundreds of recordings, and losses when workers or files fail."""
