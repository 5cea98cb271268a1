"""Certificates of limits that a run brings with it, so that the claims that rest on them carry proofs."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import xarray as xr

from rankfall.certificates import Certificate

CERTIFICATES = "certificates"  # the variable of a run that holds them; no number, and never judged
PROVED = 1  # of the seeds, the first ones whose certificates are kept, so that the page stays small


class Proved(Protocol):
    """A limit, or its certificate."""

    @property
    def document(self) -> dict[str, Any] | None:
        """What the file of the certificate holds; None if there is no certificate."""


def with_certificates(
    run: xr.Dataset, seed: int, limits: Mapping[str, Proved], seeds: int = PROVED
) -> xr.Dataset:
    """The run of a seed, and with it the certificates of its limits, each under a name.

    A claim of the experiment refers to them by `proofs`. They are kept for the first `seeds` seeds. What has
    no certificate is left out; one that its checker refuses is an error.
    """
    kept = {}
    for name, end in limits.items() if seed < seeds else ():
        if end.document is None:
            continue
        report = Certificate(end.document).check()
        if not report.accepted:
            raise RuntimeError(f"the certificate {name!r} is refused:\n{report}")
        kept[name] = end.document
    return run.assign({CERTIFICATES: ((), np.array(packed(kept) if kept else "", dtype=object))})


def refuting(end: Proved, refuted: Mapping[str, Any]) -> Proved:
    """The certificate of a limit with one more claim, that a sentence is false there; without, if it is not.

    `refuted` is what `rankfall.certificates.refutes` returns.
    """
    if end.document is None:
        return end
    more = Certificate(end.document | {"claims": [*end.document["claims"], dict(refuted)]})
    return more if more.check().accepted else end


def packed(value: Any) -> str:
    """A JSON value as text: compressed, in base 64. Equal values give equal texts."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()


def unpacked(text: str) -> Any:
    """What `packed` was given."""
    return json.loads(gzip.decompress(base64.b64decode(text)))
