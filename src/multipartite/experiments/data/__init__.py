"""Data sets: found or downloaded, checked by hash, loaded as uint8 tensors."""

from multipartite.experiments.data.dataset import Dataset, Normaliser, Split
from multipartite.experiments.data.loading import load
from multipartite.experiments.data.registry import available
from multipartite.experiments.data.splitting import stratified

__all__ = ["Dataset", "Normaliser", "Split", "available", "load", "stratified"]
