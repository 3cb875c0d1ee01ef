"""Object stores elsewhere: `push` and `pull`, and attempts that travel where a pass and the nodes of its queue share no
folder.

Everything is compared with its digest on either side. Must not know what a request asks for, nor what a result means.
"""
