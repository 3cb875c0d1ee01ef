"""Remote object stores: `push`, `pull`, and the transfer of attempts when a pass and its queue's nodes share no folder.

Every copy is checked against its digest on both sides. Must not know what a request asks for or what a result means.
"""
