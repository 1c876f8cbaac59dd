"""Every layer as a pure function."""

from multipartite.pooling.multipartite import multipartite_pool
from multipartite.pooling.score import score_map
from multipartite.pooling.stochastic import stochastic_pool

__all__ = ["multipartite_pool", "score_map", "stochastic_pool"]
