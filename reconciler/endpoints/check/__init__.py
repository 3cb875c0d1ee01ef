"""The rules of an Endpoints submission, applied to its folder."""
