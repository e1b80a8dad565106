"""Commands that talk to running nodes: monitor, view, payload, loop check and demo."""
