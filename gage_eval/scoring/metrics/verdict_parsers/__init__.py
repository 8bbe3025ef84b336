"""Verdict parsers: read the answer and the score out of a judge's text. Each is a plug-in."""
