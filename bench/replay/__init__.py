"""Speed and memory of the replay of recordings through the contact detector."""
