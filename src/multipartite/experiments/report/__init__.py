"""The report of a comparison, from run folders to tables, curves, pictures and words; the summary of several."""

from multipartite.experiments.report.collection import Collection, collect
from multipartite.experiments.report.page import Report, write_report
from multipartite.experiments.report.summary import Summary, summarise, write_summary

__all__ = ["Collection", "Report", "Summary", "collect", "summarise", "write_report", "write_summary"]
