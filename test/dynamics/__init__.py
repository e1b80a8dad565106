"""A package so that pytest puts the folder above, where ``robots.py`` stands, on the path."""
