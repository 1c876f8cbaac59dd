"""Supervised pooling and ranking for PyTorch.

Each public name is imported when it is first used: ``multipartite --help`` does not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multipartite.estimators import FeatureRanker as FeatureRanker
    from multipartite.estimators import InstanceRanker as InstanceRanker
    from multipartite.estimators import SupervisedProjection as SupervisedProjection
    from multipartite.experiments.compare import compare as compare
    from multipartite.experiments.grid.comparison import Grid as Grid
    from multipartite.experiments.run.config import RunConfig as RunConfig
    from multipartite.labels import supervise as supervise
    from multipartite.pooling.blur import BlurPool1d as BlurPool1d
    from multipartite.pooling.blur import BlurPool2d as BlurPool2d
    from multipartite.pooling.blur import BlurPool3d as BlurPool3d
    from multipartite.pooling.convert import convert as convert
    from multipartite.pooling.convert import revert as revert
    from multipartite.pooling.fitting import fit as fit
    from multipartite.pooling.fitting import freeze as freeze
    from multipartite.pooling.fractional import FractionalPool1d as FractionalPool1d
    from multipartite.pooling.fractional import FractionalPool2d as FractionalPool2d
    from multipartite.pooling.fractional import FractionalPool3d as FractionalPool3d
    from multipartite.pooling.gated import GatedPool1d as GatedPool1d
    from multipartite.pooling.gated import GatedPool2d as GatedPool2d
    from multipartite.pooling.gated import GatedPool3d as GatedPool3d
    from multipartite.pooling.lip import LIPPool1d as LIPPool1d
    from multipartite.pooling.lip import LIPPool2d as LIPPool2d
    from multipartite.pooling.lip import LIPPool3d as LIPPool3d
    from multipartite.pooling.lp import LPPool1d as LPPool1d
    from multipartite.pooling.lp import LPPool2d as LPPool2d
    from multipartite.pooling.lp import LPPool3d as LPPool3d
    from multipartite.pooling.mixed import MixedPool1d as MixedPool1d
    from multipartite.pooling.mixed import MixedPool2d as MixedPool2d
    from multipartite.pooling.mixed import MixedPool3d as MixedPool3d
    from multipartite.pooling.multipartite import MultipartitePool1d as MultipartitePool1d
    from multipartite.pooling.multipartite import MultipartitePool2d as MultipartitePool2d
    from multipartite.pooling.multipartite import MultipartitePool3d as MultipartitePool3d
    from multipartite.pooling.s3 import S3Pool1d as S3Pool1d
    from multipartite.pooling.s3 import S3Pool2d as S3Pool2d
    from multipartite.pooling.s3 import S3Pool3d as S3Pool3d
    from multipartite.pooling.softpool import SoftPool1d as SoftPool1d
    from multipartite.pooling.softpool import SoftPool2d as SoftPool2d
    from multipartite.pooling.softpool import SoftPool3d as SoftPool3d
    from multipartite.pooling.stochastic import StochasticPool1d as StochasticPool1d
    from multipartite.pooling.stochastic import StochasticPool2d as StochasticPool2d
    from multipartite.pooling.stochastic import StochasticPool3d as StochasticPool3d
    from multipartite.pooling.strided import StridedPool1d as StridedPool1d
    from multipartite.pooling.strided import StridedPool2d as StridedPool2d
    from multipartite.pooling.strided import StridedPool3d as StridedPool3d
    from multipartite.ranking import rank_features as rank_features
    from multipartite.statistics import ClassStatistics as ClassStatistics

__version__ = "0.3.0"

_HOMES = {
    "experiments.compare": ["compare"],
    "experiments.grid.comparison": ["Grid"],
    "experiments.run.config": ["RunConfig"],
    "pooling.convert": ["convert", "revert"],
    "labels": ["supervise"],
    "pooling.fitting": ["fit", "freeze"],
    "pooling.multipartite": ["MultipartitePool1d", "MultipartitePool2d", "MultipartitePool3d"],
    "pooling.stochastic": ["StochasticPool1d", "StochasticPool2d", "StochasticPool3d"],
    "pooling.s3": ["S3Pool1d", "S3Pool2d", "S3Pool3d"],
    "pooling.blur": ["BlurPool1d", "BlurPool2d", "BlurPool3d"],
    "pooling.strided": ["StridedPool1d", "StridedPool2d", "StridedPool3d"],
    "pooling.softpool": ["SoftPool1d", "SoftPool2d", "SoftPool3d"],
    "pooling.lp": ["LPPool1d", "LPPool2d", "LPPool3d"],
    "pooling.mixed": ["MixedPool1d", "MixedPool2d", "MixedPool3d"],
    "pooling.gated": ["GatedPool1d", "GatedPool2d", "GatedPool3d"],
    "pooling.lip": ["LIPPool1d", "LIPPool2d", "LIPPool3d"],
    "pooling.fractional": ["FractionalPool1d", "FractionalPool2d", "FractionalPool3d"],
    "estimators": ["FeatureRanker", "InstanceRanker", "SupervisedProjection"],
    "ranking": ["rank_features"],
    "statistics": ["ClassStatistics"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = {
    **{name: name for name in ("criteria", "errors", "functional", "instance_ranking", "labels", "pooling")},
    **{name: name for name in ("projection", "ranking", "statistics")},
    "data": "experiments.data",
    "networks": "experiments.run.networks",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"multipartite.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"multipartite.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'multipartite' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_MODULES])
