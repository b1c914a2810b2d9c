"""Training with the score as a reward."""
