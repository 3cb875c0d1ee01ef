"""``unit`` mirrors the packages, ``passes`` holds whole passes, ``architecture`` proves the rules of structure."""
