"""Data sets, networks, training, comparison and report: the fair comparison of pooling methods."""
