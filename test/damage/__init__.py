"""Sound input files of commands, and MCAP files of which any field can lie."""
