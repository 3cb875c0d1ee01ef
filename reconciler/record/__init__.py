"""Records, their disposable index and signatures, and the object store with its remote copies: the results that earlier
passes leave for later ones.

Each outcome is one immutable file under ``state/records``, whose name ends in the digest of its bytes. So a damaged
record is recognised by its name alone, and two labs' records never collide.
"""
