"""Output to disk: renders the tree, packs and encrypts it, and unpacks archives. The same commit gives the same bytes.

Takes the content that ``tree`` assembles. It must not decide the tree's content (``preconditions`` lists the reasons
against packing it) and must never receive a password in an argument.
"""
