"""Attempts that travel through an object store, where a pass and the nodes of its queue share no folder.

Takes the folder of an attempt; gives the same folder on the node, and the job's files back here. Every file is compared
with its digest on either side. Must not know what a request asks for, nor what a result means.
"""
