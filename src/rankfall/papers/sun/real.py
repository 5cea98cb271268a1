"""Sun and Tran, Fig. 2 to 9: the stable rank on gene expression, MNIST and CIFAR-10."""

from rankfall.papers.claim import Claim, Expected, at_least, at_most, near
from rankfall.papers.experiment import Experiment

ORDER = "the order of the curves, as the text tells it"


def _claim(sentence: str, figure: str, metric: str, expected: Expected) -> Claim:
    return Claim(sentence, f"section 5, {figure}", metric, None, expected, "needs data")


NEUROBLASTOMA = Experiment(
    name="2-3",
    title="Stable rank on the neuroblastoma data, ReLU and leaky ReLU",
    needs="neuroblastoma",
    claims=(
        _claim(
            "With ReLU the largest of the five initial scales ends at the lowest stable rank.",
            "Fig. 2",
            "stable rank at 1e-3 minus the lowest of the other four, at the end",
            at_most(0.0, ORDER),
        ),
        _claim(
            "With leaky ReLU the second largest initial scale ends at the lowest stable rank.",
            "Fig. 3",
            "stable rank at 5e-4 minus the lowest of the other four, at the end",
            at_most(0.0, ORDER),
        ),
        _claim(
            "The lowest stable rank is lower with ReLU than with leaky ReLU.",
            "Fig. 2 and 3",
            "lowest stable rank with leaky ReLU minus that with ReLU",
            at_least(0.0, ORDER),
        ),
    ),
)

AUTISM = Experiment(
    name="4-5",
    title="Stable rank on the autism data, ReLU and leaky ReLU",
    needs="autism",
    claims=(
        _claim(
            "ReLU and leaky ReLU end at the same stable rank, for each initial scale.",
            "Fig. 4 and 5",
            "stable rank with leaky ReLU / with ReLU, at epoch 5000",
            near(1.0, 0.05, "the curves look alike: 5 % is what an eye sees"),
        ),
        _claim(
            "The stable rank falls, rises and falls again.",
            "Fig. 4 and 5",
            "number of turning points of each curve",
            at_least(2, "two turns make fall, rise, fall", "{:.0f}"),
        ),
        _claim(
            "After 3000 epochs the network overfits: the test accuracy falls.",
            "Fig. 4 and 5",
            "test accuracy at epoch 5000 minus its largest value",
            at_most(-0.05, "a marked fall: one of the 21 test samples is 5 %"),
        ),
    ),
)

MNIST = Experiment(
    name="6-7",
    title="Stable rank on MNIST, ReLU and leaky ReLU",
    needs="MNIST",
    claims=(
        _claim(
            "The smaller the initial weights, the lower the stable rank after ten epochs.",
            "Fig. 6 and 7",
            "smallest step of the stable rank from one value to the next larger one",
            at_least(0.0, "the order of the curves, as they are drawn"),
        ),
        _claim(
            "With ReLU the five runs end at stable ranks of 15, 20, 26, 68 and 110.",
            "Fig. 6, read off",
            "stable rank after ten epochs, from the smallest initial weights to the largest",
            near((15, 20, 26, 68, 110), 0.1, "how well a printed curve can be read", "{:.0f}", relative=True),
        ),
    ),
)

CIFAR = Experiment(
    name="8-9",
    title="Stable rank on CIFAR-10",
    needs="CIFAR-10",
    claims=(
        _claim(
            "From the smallest initial weights the stable rank is 55 after the first epoch.",
            "Fig. 8, read off",
            "stable rank after one epoch, value 1e-5",
            near(55, 0.1, "how well a printed curve can be read", "{:.0f}", relative=True),
        ),
        _claim(
            "From the smallest initial weights the stable rank rises again after a hundred epochs.",
            "Fig. 9",
            "stable rank at epoch 2000 / at epoch 100",
            at_least(1.5, "a severe rise, in the words of the text; our reading of severe"),
        ),
    ),
)
EXPERIMENTS = (NEUROBLASTOMA, AUTISM, MNIST, CIFAR)
