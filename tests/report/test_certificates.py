"""Certificates on their way from a run to the folder of a report: kept with it, named by claims, written."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from rankfall.certificates import Certificate, check
from rankfall.papers.lab import CERTIFICATES, packed, unpacked, with_certificates
from rankfall.papers.reproduction import choose, reproduce
from rankfall.report._files import write

pytestmark = pytest.mark.slow


class End:
    """What has a document, as a limit has."""

    def __init__(self, document):
        self.document = document


def documents(outcomes):
    return [unpacked(text) for outcome in outcomes for text in outcome.certificates.values()]


def test_certificates_survive_the_file_of_a_run(outcomes, tmp_path):
    one, other = documents(outcomes)[:2]
    run = with_certificates(xr.Dataset({"rank": 2.0}), 0, {"one": End(one), "other": End(other)})
    run.to_netcdf(tmp_path / "0.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "0.nc", engine="h5netcdf") as found:
        assert unpacked(found[CERTIFICATES].item()) == {"one": one, "other": other}


def test_runs_with_and_without_certificates_go_together(outcomes):
    end = {"one": End(documents(outcomes)[0]), "none": End(None)}
    runs = [with_certificates(xr.Dataset({"rank": 1.0}), seed, end, seeds=2) for seed in range(4)]
    texts = xr.concat(runs, dim="seed")[CERTIFICATES].values.tolist()
    assert [bool(text) for text in texts] == [True, True, False, False]
    assert list(unpacked(texts[0])) == ["one"]


def test_a_certificate_that_is_refused_does_not_go_with_a_run(outcomes):
    wrong = documents(outcomes)[0]
    wrong["point"]["multipliers"][0] = "0x1"
    with pytest.raises(RuntimeError, match="the certificate 'one' is refused"):
        with_certificates(xr.Dataset({"rank": 1.0}), 0, {"one": End(wrong)})


def test_equal_documents_are_packed_into_equal_texts(outcomes):
    document = documents(outcomes)[0]
    assert packed(document) == packed(json.loads(json.dumps(document)))


def test_claims_name_the_certificates_they_rest_on_and_refuted_ones_those_that_refute(outcomes):
    every = next(outcome for outcome in outcomes if outcome.certificates)
    assert [len(row.certificates) for row in every.rows] == [4, 0, 2, 0, 0]
    assert every.rows[2].certificates[0] == "certificates/made-up-4b-first-seed-0.json"
    for name in every.rows[2].certificates:
        assert "refutes" in Certificate(unpacked(every.certificates[name])).claims


def test_no_claim_is_judged_on_certificates(outcomes):
    every = next(outcome for outcome in outcomes if outcome.certificates)
    assert all(CERTIFICATES not in json.dumps(row.values) for row in every.rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of a real experiment, run for one seed."""
    folder = tmp_path_factory.mktemp("report")
    stale = folder / "certificates" / "kou-leaky-of-long-ago.json"
    stale.parent.mkdir()
    stale.write_text("{}", encoding="utf-8")
    (stale.parent / "mine.json").write_text("{}", encoding="utf-8")
    with ThreadPoolExecutor(1) as executor:
        outcomes = list(reproduce(choose("kou", "leaky"), folder, 1, executor, show=False))
    write(outcomes, folder, 1.0)
    return folder


def test_a_report_writes_the_certificates_that_its_claims_name(folder):
    rows = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    named = {name for row in rows for name in row["certificates"]}
    assert named
    assert {f"certificates/{file.name}" for file in (folder / "certificates").iterdir()} - named == {
        "certificates/mine.json"
    }
    for name in named:
        assert check.main([str(folder / name)]) == 0
        assert f'data-certificate="{name}"' in (folder / "index.html").read_text(encoding="utf-8")


def test_what_was_kept_has_its_certificates_too(folder):
    (first,) = reproduce(choose("kou", "leaky"), folder, 1, 1, show=False)
    (second,) = reproduce(choose("kou", "leaky"), folder, 1, 1, show=False)
    assert (first.news, second.news) == ("from the cache", "from the cache")
    assert first.certificates == second.certificates
    assert first.certificates
    damaged = folder / "runs" / "kou-leaky" / "certificates.json"
    damaged.write_text(damaged.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    (again,) = reproduce(choose("kou", "leaky"), folder, 1, 1, show=False)
    assert again.news.startswith("judged again")
    assert again.certificates == first.certificates
    assert np.all([Certificate(unpacked(text)).check().accepted for text in again.certificates.values()])
