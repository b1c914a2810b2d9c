"""Word problems to train on: published ones, the same with other numbers, and stories told here."""
