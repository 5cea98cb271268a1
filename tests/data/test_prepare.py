import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from rankfall import data as rd
from rankfall.data import Data
from rankfall.data._prepare import _affine, _moments

RNG = np.random.default_rng


def digits(n=60, dim=5, classes=4, test=20, dtype=np.float64):
    """Samples that can be told apart: the first feature is their number, in the test part from 1000."""
    x = RNG(0).normal(3, 2, (n + test, dim)).astype(dtype)
    x[:, 0] = np.r_[np.arange(n), 1000 + np.arange(test)]
    y = RNG(1).integers(0, classes, n + test).astype(float)
    return Data(x[:n], y[:n], "digits", Data(x[n:], y[n:], "digits test"))


def plain(n, dim=3):
    return Data(np.arange(n * dim, dtype=float).reshape(n, dim), RNG(2).integers(0, 2, n), "mine")


# Two classes


def test_a_pair_holds_the_samples_of_its_classes_in_their_order_and_the_first_class_is_positive():
    data = digits()
    two = rd.pair(data, 3, 1)
    for part, whole in ((two, data), (two.test, data.test)):
        expected = [
            (row[0], 1.0 if y == 3 else -1.0) for row, y in zip(whole.x, whole.y, strict=True) if y in (1, 3)
        ]
        assert list(zip(part.x[:, 0], part.y, strict=True)) == expected
    assert (two.name, two.test.name) == ("digits 3/1", "digits test 3/1")
    np.testing.assert_array_equal(rd.pair(data, 1, 3).y, -two.y)


def test_a_pair_of_labels_minus_one_and_one_is_the_data_or_its_opposite():
    data = rd.xor()
    np.testing.assert_array_equal(rd.pair(data, 1, -1).y, data.y)
    np.testing.assert_array_equal(rd.pair(data, -1, 1).y, -data.y)


# Fewer samples


def test_a_subset_is_drawn_without_replacement_and_a_smaller_one_is_part_of_it():
    data = digits()
    small, large = rd.subset(data, 10, seed=5), rd.subset(data, 25, seed=5)
    np.testing.assert_array_equal(large.x[:10], small.x)
    np.testing.assert_array_equal(large.y[:10], small.y)
    assert len(set(large.x[:, 0])) == 25
    for row, y in zip(large.x, large.y, strict=True):
        assert data.y[int(row[0])] == y
        np.testing.assert_array_equal(data.x[int(row[0])], row)
    assert large.test is data.test
    assert set(rd.subset(data, 60).x[:, 0]) == set(range(60))
    assert list(rd.subset(data, 25, seed=6).x[:, 0]) != list(large.x[:, 0])
    np.testing.assert_array_equal(rd.subset(data, 25, seed=5).x, large.x)


def test_every_sample_is_equally_likely_to_be_in_a_subset():
    data = plain(6, 1)
    counts = np.zeros(6)
    for seed in range(2000):
        counts[rd.subset(data, 2, seed=seed).x[:, 0].astype(int)] += 1
    # Each is drawn with probability 1/3: 5 standard deviations of the binomial law are 105.
    assert np.abs(counts - 2000 / 3).max() < 105


def test_a_balanced_subset_has_equally_many_samples_of_each_class():
    data = digits(n=200)
    small, large = (rd.subset(data, n, seed=1, balanced=True) for n in (20, 100))
    assert np.unique(large.y, return_counts=True)[1].tolist() == [25] * 4
    assert np.unique(small.y, return_counts=True)[1].tolist() == [5] * 4
    assert set(small.x[:, 0]) < set(large.x[:, 0])
    assert len(set(large.x[:, 0])) == 100
    assert len(np.unique(large.y[:25])) == 4  # in random order, not class by class
    assert large.name == "digits, 100 balanced samples of seed 1"


# A test part


@pytest.mark.parametrize("n", [2, 5, 104, 251])
@pytest.mark.parametrize("test", [0.2, 0.5, 0.33, 1])
@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
def test_a_split_is_that_of_scikit_learn_sample_for_sample(n, test, seed):
    data = plain(n)
    x, x_test, y, y_test = train_test_split(data.x, data.y, test_size=test, random_state=seed)
    parts = rd.split(data, test, seed)
    for ours, theirs in ((parts.x, x), (parts.y, y), (parts.test.x, x_test), (parts.test.y, y_test)):
        np.testing.assert_array_equal(ours, theirs)


def test_a_split_is_by_default_the_usual_one_and_its_name_tells_the_sizes():
    data = plain(104)
    parts = rd.split(data)
    np.testing.assert_array_equal(parts.test.x, train_test_split(data.x, test_size=0.2, random_state=42)[1])
    assert (parts.name, parts.test.name) == ("mine, split 83/21", "mine, split 83/21 test")


# Features


@pytest.mark.parametrize("by", ["train", "all"])
def test_standardised_features_are_those_of_scikit_learn(by):
    data = digits()
    x, x_test = data.x * [1, 1e-8, 1e8, 1, 1] + [0, 0, 1e6, 1e3, 0], data.test.x.copy()
    x[:, 4] = 0.1  # constant in the training part, not in the test part
    data = Data(x, data.y, "digits", Data(x_test, data.test.y))
    scaler = StandardScaler().fit(x if by == "train" else np.concatenate([x, x_test]))
    done = rd.standardise(data, by)
    np.testing.assert_allclose(done.x, scaler.transform(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(done.test.x, scaler.transform(x_test), rtol=1e-9, atol=1e-12)
    assert by == "all" or (done.x[:, 4] == 0).all()
    name = "digits, standardised" + (" by all" if by == "all" else "")
    assert (done.name, done.test.name) == (name, f"{name} test")


@pytest.mark.parametrize("block", [1, 7])
def test_features_are_standardised_a_few_rows_at_a_time_as_all_at_once(block):
    x, more = RNG(0).normal(1e3, 2, (20, 3)), RNG(1).normal(size=(9, 3))
    whole = np.concatenate([x, more])
    mean, deviation = _moments([x, more], block)
    np.testing.assert_allclose(mean, whole.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(deviation, whole.std(axis=0), rtol=1e-14)
    np.testing.assert_array_equal(_affine(x, mean, deviation, block), (x - mean) / deviation)


def test_standardising_before_a_split_is_standardising_by_all_after_it():
    data = Data(RNG(0).normal(size=(50, 4)), RNG(1).normal(size=50), "mine")
    before, after = rd.split(rd.standardise(data)), rd.standardise(rd.split(data), by="all")
    np.testing.assert_allclose(before.x, after.x, rtol=1e-12)
    np.testing.assert_allclose(before.test.x, after.test.x, rtol=1e-12)


def test_centred_features_have_mean_zero_over_the_training_part_and_distances_stay():
    data = digits()
    done = rd.centre(data)
    np.testing.assert_allclose(done.x.mean(axis=0), 0, atol=1e-13)
    shift = data.x[0] - done.x[0]
    np.testing.assert_allclose(data.x - done.x, np.tile(shift, (60, 1)), rtol=1e-12)
    np.testing.assert_allclose(data.test.x - done.test.x, np.tile(shift, (20, 1)), rtol=1e-12)
    assert (rd.centre(Data(np.full((7, 2), 0.1), np.arange(7))).x == 0).all()


def test_the_bias_coordinate_is_one_for_every_sample():
    done = rd.with_bias(digits())
    for part, whole in ((done, digits()), (done.test, digits().test)):
        np.testing.assert_array_equal(part.x, np.column_stack([whole.x, np.ones(whole.n)]))
    assert rd.margin(done_pair := rd.with_bias(rd.xor())) == rd.margin(rd.xor(), bias=True)
    assert done_pair.name == "xor, with bias"


def test_single_precision_stays_and_means_are_taken_in_double_precision():
    single = digits(dtype=np.float32)
    double = Data(
        single.x.astype(float), single.y, "digits", Data(single.test.x.astype(float), single.test.y)
    )
    steps = (
        rd.centre,
        rd.standardise,
        rd.with_bias,
        lambda d: rd.pair(d, 0, 2),
        lambda d: rd.subset(d, 9),
        lambda d: rd.split(Data(d.x, d.y)),
    )
    for step in steps:
        ours, expected = step(single), step(double)
        assert ours.x.dtype == ours.test.x.dtype == np.float32
        np.testing.assert_array_equal(ours.x, expected.x.astype(np.float32))
    far = Data(np.float32([[1e8, 1], [1e8 + 8, 2], [1e8 + 16, 3]]), [0, 0, 1])
    np.testing.assert_array_equal(rd.centre(far).x[:, 0], [-8, 0, 8])


def test_nothing_is_done_to_the_data_that_was_given():
    data = digits()
    before = data.x.copy(), data.test.x.copy()
    for step in (
        rd.centre,
        rd.standardise,
        rd.with_bias,
        lambda d: rd.pair(d, 0, 1),
        lambda d: rd.subset(d, 60),
    ):
        assert not np.shares_memory(step(data).x, data.x)
    np.testing.assert_array_equal(data.x, before[0])
    np.testing.assert_array_equal(data.test.x, before[1])


# Input


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (lambda d: rd.pair(d, 1, 1), "two different classes, but both are 1"),
        (lambda d: rd.pair(d, 1, 7), r"unknown class of 'digits': 7. Known: 0, 1, 2, 3."),
        (lambda d: rd.pair(Data(d.x, d.x), 1, 0), r"one class number for each sample, .* shape \(60, 5\)"),
        (
            lambda d: rd.pair(Data(d.x, d.y, "big", Data(d.x[:1], [3.0], "big test")), 1, 0),
            "'big test' has no sample of the classes 1 and 0: leave this part out",
        ),
        (lambda d: rd.pair(d, 1, "0"), "a class of 'digits' is a number, not '0'"),
        (lambda d: rd.subset(d, 9, seed="a"), "the seed must be a whole number from 0 on, not 'a'"),
        (lambda d: rd.subset(d, 9, seed=None), "the seed must be a whole number from 0 on, not None"),
        (lambda d: rd.split(plain(9), seed=1.5), "the seed must be a whole number from 0 on, not 1.5"),
        (lambda d: rd.split(plain(9), seed=None), "the seed must be a whole number from 0 on, not None"),
        (lambda d: rd.subset(d, 61), "'digits' has 60 samples, fewer than the 61 asked for"),
        (lambda d: rd.subset(d, 0), "n must be a positive whole number, not 0"),
        (lambda d: rd.subset(d, 2.5), "n must be a positive whole number, not 2.5"),
        (lambda d: rd.subset(d, 6, balanced=True), "over the 4 classes of 'digits': take a multiple of 4"),
        (lambda d: rd.subset(d, 60, balanced=True), r"need 15 of each class, but .* take at most \d+"),
        (rd.split, "'digits' has a test part of 20 samples already"),
        (lambda d: rd.split(plain(9), 1.0), "test must be between 0 and 1, not 1.0"),
        (lambda d: rd.split(plain(9), 9), "9 test samples leave none of the 9 of 'mine' to train on"),
        (lambda d: rd.split(plain(1)), "1 test samples leave none"),
        (lambda d: rd.split(plain(9), "all"), "test must be a positive whole number, not 'all'"),
        (
            lambda d: rd.standardise(d, by="trian"),
            "unknown samples to standardise by: 'trian'. Did you mean 'train'",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(step, sentence):
    with pytest.raises(ValueError, match=sentence):
        step(digits())
