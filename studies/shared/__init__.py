"""Figures, pages and origins that all studies use."""
