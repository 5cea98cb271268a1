"""The claims as a page for a browser, on a terminal, and as Markdown tables."""

from rankfall.report._files import write
from rankfall.report._markdown import counts_table, table
from rankfall.report._terminal import listing, outcome_table, summary

__all__ = ["counts_table", "listing", "outcome_table", "summary", "table", "write"]
