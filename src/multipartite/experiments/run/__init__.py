"""One run: what it is, its network, its training, its folder."""
