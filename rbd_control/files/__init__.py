"""Reading and writing files: errors that name the file, and bounds on what is read."""
