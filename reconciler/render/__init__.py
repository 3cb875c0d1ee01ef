"""Views of one value: text for people, JSON for programs. Takes what stages made; decides, reads, writes nothing."""
