"""Pooling layers: one operator a file, and a registry of them all."""

from multipartite.pooling.registry import available, create, parse

__all__ = ["available", "create", "parse"]
