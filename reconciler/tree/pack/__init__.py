"""Packs a rendered tree for submission, and unpacks one: the same commit gives the same bytes.

Takes the content of a tree; gives an archive with its digests and manifest. Must not decide what may be submitted
(``refusing`` says what speaks against it) and must never see a password in an argument.
"""
