"""``python -m multipartite`` is the command ``multipartite``."""

from multipartite.cli import main

main()
