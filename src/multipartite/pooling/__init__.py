"""Pooling layers: one operator a file, and a registry of them all."""

from multipartite.pooling.registry import available, create, register

__all__ = ["available", "create", "register"]
