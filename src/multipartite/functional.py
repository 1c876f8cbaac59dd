"""Every layer as a pure function."""

from multipartite.instance_ranking import score_map
from multipartite.pooling.gather import gather
from multipartite.pooling.multipartite import multipartite_pool
from multipartite.pooling.stochastic import stochastic_pool

__all__ = ["gather", "multipartite_pool", "score_map", "stochastic_pool"]
