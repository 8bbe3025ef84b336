"""Verdict parsers: what is read out of a judge's text. Each is a plug-in."""
