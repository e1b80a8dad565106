"""What happens before a node or command does its work: compiling ahead, signals, streams."""
