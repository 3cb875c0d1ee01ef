"""Output to disk: the rendered tree, packages and their encryption, unpacking. The same commit gives the same bytes.

Takes the content that ``tree`` assembles. It must not decide the tree's content (``preconditions`` lists the reasons
against packing it) and must never receive a password in an argument.
"""
