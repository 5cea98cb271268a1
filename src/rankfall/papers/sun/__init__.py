"""Sun and Tran: Implicit bias of gradient flow for two-layer ReLU networks trained on nearly-orthogonal data.

Department of Statistics, University of California, Davis. A file for the synthetic figure, one for the two
properties, one for the figures on real data.
"""

from rankfall.papers.experiment import Paper
from rankfall.papers.sun import properties, real, synthetic
from rankfall.theory.sources import SUN

PAPER = Paper(
    "sun",
    "Implicit bias of gradient flow for two-layer ReLU networks trained on nearly-orthogonal data",
    SUN,
    (synthetic.FIGURE_1, properties.PROPERTIES, properties.MAP, *real.EXPERIMENTS),
)
