"""The study of a model of real words: how it is made, asked, measured and told."""
