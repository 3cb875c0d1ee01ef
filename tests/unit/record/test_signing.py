"""What is refused before any program is asked about a signature."""

from __future__ import annotations

import pytest

from reconciler.record.signing import SignatureStatus, check

SSH = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"


@pytest.mark.parametrize(
    ("signature", "when", "why"),
    [
        (b"signed by me", "2026-01-02T03:04:05Z", "it is not an SSH or OpenPGP signature"),
        (b"", "2026-01-02T03:04:05Z", "it is not an SSH or OpenPGP signature"),
        (SSH, "yesterday", "its record has no valid time: yesterday"),
    ],
)
def test_what_cannot_be_a_signature_is_a_bad_one(signature: bytes, when: str, why: str) -> None:
    checked = check(b"{}", signature, None, when)
    assert (checked.standing, checked.why) == (SignatureStatus.BAD, why)
