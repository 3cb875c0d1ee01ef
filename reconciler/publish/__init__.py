"""Output that is written: the rendered tree, packages and their encryption, unpacking. The same commit gives the same
bytes.

Takes the content that ``tree`` assembles. Must not decide what the tree says (``preconditions`` says what speaks
against packing it) and must never see a password in an argument.
"""
