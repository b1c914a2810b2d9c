"""Who does long work: one process, or the workers of a Ray cluster; the results are the same."""
