"""Embargo on unpublished results, with one check for every exit. Pure; denied by default.

An exit has an address: the target of a git push, the URL of an object store, the page of a pull request,
``exec:COMMAND`` for a hook. Files on this machine are not an exit.
"""

from __future__ import annotations

import posixpath
from datetime import date
from fnmatch import fnmatchcase
from urllib.parse import unquote

from msgspec import Struct

from reconciler.resource.settings import SubmissionSettings

HOOK = "exec:"  # prefix of the address of a program that receives events


class Embargo(Struct, frozen=True):
    """Embargo on results. ``until``: the day on which they become public, None for no end. ``allow``: patterns of
    private addresses."""

    until: date | None
    allow: tuple[str, ...] = ()

    def is_in_force(self, today: date) -> bool:
        return self.until is None or today < self.until

    def allows(self, address: str) -> bool:
        """Match the address as written, or by host and path only: ``git@host:acme/*`` and ``https://host/acme/*`` are
        equivalent."""
        if not address or ".." in _normalise(address).split("/"):
            return False
        return any(
            fnmatchcase(address, pattern) or fnmatchcase(_normalise(address), _normalise(pattern))
            for pattern in self.allow
        )

    def __str__(self) -> str:
        return f"embargo until {self.until}" if self.until else "embargo without an end"


def make_embargo(settings: SubmissionSettings) -> Embargo | None:
    """Make the embargo from the submission's ``settings``; None if the spec declares none."""
    until, allow = settings.embargo_until, settings.embargo_allow
    if not until and not allow:
        return None
    return Embargo(date.fromisoformat(until) if until else None, allow)


def explain_refusal(embargo: Embargo | None, address: str, today: date) -> str:
    """Explain why measurements may not be sent to this address today; "" if they may. ``today`` is in UTC.

    Every exit calls this before it sends anything: ``git push`` for each push address of the remote, a transfer of
    objects for the store's URL, a comment or annotation for the address of the repository's page, a hook for
    ``exec:COMMAND``. The submission's settings define the embargo:

        settings = desired.detail(submission.address).settings
        why = explain_refusal(make_embargo(settings), "s3://acme-private/objects", datetime.now(UTC).date())
    """
    if embargo is None or not embargo.is_in_force(today) or embargo.allows(address):
        return ""
    return f"{embargo}: {show_embargo(address) or 'an unknown place'} is not among embargo.allow"


def show_embargo(address: str) -> str:
    """Return the address without any password or token."""
    scheme, sign, rest = address.partition("://")
    if not sign:
        return address
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _normalise(address: str) -> str:
    """Return host and path, the same for https://user@host/path, ssh://user@host:port/path and user@host:path. Paths on
    disk, patterns without a host, and hooks are unchanged."""
    if address.startswith((HOOK, "/", ".")):
        return address
    scheme, sign, rest = address.partition("://")
    if sign and scheme not in ("https", "http", "ssh", "git"):
        return address  # a store's bucket is not a host
    if not sign:
        host, colon, path = address.partition(":")
        if not colon or "/" in host:
            return address
        rest = f"{host}/{path.lstrip('/')}"
    host, slash, path = rest.partition("/")
    path = unquote(path).removesuffix("/").removesuffix(".git")
    kept = path if ".." in path.split("/") else posixpath.normpath(path) if path else ""
    return f"{host.rpartition('@')[2].lower()}{slash}{kept}"
