"""What a new user is promised, tried through the console entry."""
