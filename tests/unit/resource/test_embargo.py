"""The one answer that every exit asks for: may this go there today?"""

from __future__ import annotations

from datetime import date

import pytest

from reconciler.resource.embargo import explain_refusal, make_embargo, show_embargo
from reconciler.resource.settings import SubmissionSettings

TODAY = date(2026, 3, 15)
HERE = "git@git.acme.com:mlperf.git"


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        pytest.param({}, False, id="none-declared"),
        pytest.param({"embargo.until": "2026-04-01"}, True, id="denied-by-default"),
        pytest.param({"embargo.until": "2026-04-01", "embargo.allow": ["git@git.acme.com:*"]}, False, id="allowed"),
        pytest.param({"embargo.until": "2026-04-01", "embargo.allow": ["git@other.com:*"]}, True, id="another-allowed"),
        pytest.param({"embargo.until": "2026-03-15"}, False, id="over-on-its-day"),
        pytest.param({"embargo.allow": ["git@other.com:*"]}, True, id="without-an-end"),
    ],
)
def test_refusal_denies_by_default(settings: dict[str, object], refused: bool) -> None:
    assert bool(explain_refusal(make_embargo(SubmissionSettings(settings)), HERE, TODAY)) == refused


@pytest.mark.parametrize(
    ("pattern", "address", "allowed"),
    [
        ("git@github.com:acme/*", "https://github.com/acme/results", True),
        ("git@github.com:acme/*", "ssh://git@github.com/acme/results.git", True),
        ("https://GitHub.com/acme/results", "git@github.com:acme/results.git", True),
        ("git@github.com:acme/*", "https://github.com/acme-public/results", False),
        ("git@github.com:acme/*", "https://github.com/acme/../public/results", False),
        ("git@github.com:acme/*", "https://github.com/acme/%2e%2e/public/results", False),
        ("git@github.com:acme/*", "https://evil.com/github.com/acme/results", False),
        ("git@github.com:acme/*", "https://github.com@evil.com/acme/results", False),
        ("ssh://git@acme.com:2222/*", "ssh://git@acme.com:22/x", False),
        ("s3://acme-private/*", "s3://acme-private/objects", True),
        ("s3://acme-private/*", "s3://acme-public/objects", False),
        ("/srv/git/*", "/srv/git/mlperf.git", True),
        ("exec:/usr/local/bin/notify*", "exec:/usr/local/bin/notify --quiet", True),
        ("*", "", False),
    ],
)
def test_one_place_may_be_written_in_several_ways(pattern: str, address: str, allowed: bool) -> None:
    settings = {"embargo.until": "2026-04-01", "embargo.allow": [pattern]}
    assert (explain_refusal(make_embargo(SubmissionSettings(settings)), address, TODAY) == "") == allowed


def test_a_refusal_reveals_no_password() -> None:
    why = explain_refusal(
        make_embargo(SubmissionSettings({"embargo.until": "2026-04-01"})),
        "https://ada:s3cret@git.acme.com/m?token=t0k",
        TODAY,
    )
    assert why == "embargo until 2026-04-01: https://git.acme.com/m is not among embargo.allow"
    assert show_embargo("git@git.acme.com:m") == "git@git.acme.com:m"
