"""Records, their disposable index and signatures, the object store here and its copies elsewhere: what earlier passes
leave for later ones.

One immutable file per outcome under ``state/records``; its name ends in the digest of its bytes, so a damaged
record is known by its name alone and two labs' records never collide.
"""
