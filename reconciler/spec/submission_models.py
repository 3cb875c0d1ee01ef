"""Spec fields of the submission as a whole: its documents, its embargo, who signs records, where objects are."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from reconciler.spec import fields
from reconciler.spec.groups import Empty, Group


class Documents(Group):
    """Documents of the submission tree that are no results."""

    calibration: fields.Location = Field(
        None, description="Published as documentation/calibration.md in the closed and network divisions."
    )
    bandwidth: fields.Location = Field(
        None, description="Published as documentation/bandwidth with the file's own ending, in every division."
    )
    checker_log: fields.Location = Field(
        None,
        description="Published as results/submission_checker_log.txt in every division, once `check --official "
        "--carry-log` has written it.",
    )
    folder: fields.Location = Field(
        None, description="With program endpoints: folder whose files are published below docs/ of the submission."
    )


class EmbargoGroup(Group):
    """Until when nothing measured may leave for a place that is not named here."""

    until: fields.Day = Field(None, description="The day on which the results become public, such as 2026-04-01.")
    allow: fields.Patterns = Field(
        None, description="Places that are known to be private, as patterns such as git@git.acme.com:* or exec:COMMAND."
    )


class Signing(Group):
    """Signatures of records by the keys of those who made them. Nothing of it enters a key."""

    sign: fields.Flag = Field(
        None, description="true: a pass signs each record as git is configured to sign (gpg.format, user.signingkey)."
    )
    signers: fields.Location = Field(
        None,
        description="File of allowed signers (ssh-keygen(1)), which `audit` trusts; default: git's own "
        "(gpg.ssh.allowedSignersFile).",
    )


class Store(Group):
    """A place elsewhere for the artifacts that git does not hold. Nothing of it enters a key."""

    url: fields.StoreUrl = Field(
        description="Where the objects are, as fsspec names it: s3://bucket/folder, file:///mnt/share, or https://… to "
        "read. ${MLPERF_…} and ${RECONCILE_…} are expanded, and the variables that RECONCILE_STORE_VARIABLES lists."
    )
    options: Annotated[dict[fields.Name, fields.StoreOption], Empty] = Field(
        {}, description="Options of fsspec for this protocol, by name: a value, or {from_env: NAME} for a secret."
    )
