"""Every layer as a pure function."""

from multipartite.instance_ranking import score_map
from multipartite.pooling.blur import blur_pool
from multipartite.pooling.fractional import fractional_pool
from multipartite.pooling.gated import gated_pool
from multipartite.pooling.gather import gather
from multipartite.pooling.lip import lip_pool
from multipartite.pooling.lp import lp_pool
from multipartite.pooling.mixed import mixed_pool
from multipartite.pooling.multipartite import multipartite_pool
from multipartite.pooling.s3 import s3_pool
from multipartite.pooling.softpool import soft_pool
from multipartite.pooling.stochastic import stochastic_pool
from multipartite.pooling.strided import strided_pool

__all__ = [
    "blur_pool",
    "fractional_pool",
    "gated_pool",
    "gather",
    "lip_pool",
    "lp_pool",
    "mixed_pool",
    "multipartite_pool",
    "s3_pool",
    "score_map",
    "soft_pool",
    "stochastic_pool",
    "strided_pool",
]
