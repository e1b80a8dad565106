"""The arguments of each sub-command, one file a command.

Each file has ``add_command``, which adds the arguments and names the function that runs the
command. The files import nothing that takes long, so that ``--help`` answers at once: what the
command itself needs is imported when it runs.
"""
