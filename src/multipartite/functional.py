"""Every layer as a pure function."""

from multipartite.instance_ranking import score_map
from multipartite.pooling.blur import blur_pool
from multipartite.pooling.gather import gather
from multipartite.pooling.multipartite import multipartite_pool
from multipartite.pooling.s3 import s3_pool
from multipartite.pooling.stochastic import stochastic_pool
from multipartite.pooling.strided import strided_pool

__all__ = [
    "blur_pool",
    "gather",
    "multipartite_pool",
    "s3_pool",
    "score_map",
    "stochastic_pool",
    "strided_pool",
]
