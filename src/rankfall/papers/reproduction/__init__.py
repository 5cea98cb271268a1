"""Run the experiments again, keep every run, and run only what is new or has changed.

A folder holds, for each experiment, a netCDF file for every seed that was run, the verdicts, the figure, and
the certificates of limits.
Runs are kept by their setting and seed, the versions of the libraries, and a digest of the modules that they
rest on; verdicts and figures also by the text of the modules that judge and draw. Runs at other settings than
the paper's have folders of their own, side by side.
"""

from rankfall.papers.reproduction._choice import Chosen, choose
from rankfall.papers.reproduction._folder import Kept, found_at_other_settings, found_before, kept
from rankfall.papers.reproduction._provenance import environment
from rankfall.papers.reproduction._running import reproduce

__all__ = [
    "Chosen",
    "Kept",
    "choose",
    "environment",
    "found_at_other_settings",
    "found_before",
    "kept",
    "reproduce",
]
