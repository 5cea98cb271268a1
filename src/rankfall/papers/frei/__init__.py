"""Frei et al.: Implicit bias in leaky ReLU networks trained on high-dimensional data.

Frei, Vardi, Bartlett, Srebro and Hu, ICLR 2023 (arXiv 2210.07082). A file for each subject.
"""

from rankfall.papers.claim import Claim, at_least, between, near
from rankfall.papers.experiment import Experiment, Paper
from rankfall.papers.frei.limits import LIMITS
from rankfall.papers.frei.orthogonality import ORTHOGONALITY
from rankfall.papers.frei.step import DIMENSION, STEP_BY_SCALE
from rankfall.papers.frei.theorem import DESCENT
from rankfall.theory.sources import FREI

CIFAR = Experiment(
    name="cifar",
    title="Stable rank of two-layer networks trained by SGD on CIFAR-10, two initial scales",
    needs="CIFAR-10",
    claims=(
        Claim(
            sentence="From TensorFlow's default start the stable rank stays at 74 or above.",
            source="section 1",
            metric="least stable rank of the first layer, 512 neurons",
            measure=None,
            expected=at_least(74, "the number in the text"),
            recorded="needs data",
        ),
        Claim(
            sentence="From smaller initial weights the stable rank soon falls to 3.25.",
            source="section 1",
            metric="least stable rank of the first layer, 512 neurons",
            measure=None,
            expected=near(3.25, 0.1, "the number in the text, for another draw of weights", relative=True),
            recorded="needs data",
        ),
        Claim(
            sentence="From smaller weights the stable rank exceeds 10 only once the network overfits.",
            source="section 1",
            metric="step at which the stable rank reaches 10 / step of the least test loss",
            measure=None,
            expected=between(1.0, 10.0, "not before the test loss rises; of the same order"),
            recorded="needs data",
        ),
    ),
)

PAPER = Paper(
    "frei",
    "Implicit bias in leaky ReLU networks trained on high-dimensional data",
    FREI,
    (LIMITS, ORTHOGONALITY, DESCENT, STEP_BY_SCALE, DIMENSION, CIFAR),
)
