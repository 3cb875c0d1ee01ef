"""Remote object stores: `push`, `pull`, and the transfer of attempts if a pass and its queue's nodes have no folder in
common.

Every copy is checked against its digest on both sides. Must not know what a request asks for or what a result means.
"""
