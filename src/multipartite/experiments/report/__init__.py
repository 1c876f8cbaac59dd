"""The report of a comparison: from run folders to tables, curves, pictures and words."""

from multipartite.experiments.report.collection import Collection, collect
from multipartite.experiments.report.writing import Report, write_report

__all__ = ["Collection", "Report", "collect", "write_report"]
