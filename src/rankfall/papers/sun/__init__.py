"""Sun and Tran: Implicit bias of gradient flow for two-layer ReLU networks trained on nearly-orthogonal data.

Department of Statistics, University of California, Davis. A file for the synthetic figure, one for the two
properties, and one for each set of real data; what these share is in readings.py.
"""

from rankfall.papers.lab import Paper
from rankfall.papers.sun import autism, cifar, mnist, neuroblastoma, properties, synthetic
from rankfall.theory.core import SUN

PAPER = Paper(
    "sun",
    "Implicit bias of gradient flow for two-layer ReLU networks trained on nearly-orthogonal data",
    SUN,
    (
        synthetic.FIGURE_1,
        properties.PROPERTIES,
        properties.MAP,
        neuroblastoma.NEUROBLASTOMA,
        neuroblastoma.GORDON,
        autism.AUTISM,
        mnist.MNIST,
        cifar.FIGURE_8,
        cifar.FIGURE_9,
    ),
)
