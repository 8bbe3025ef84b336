"""Rules that take a part out of a model's text: the answer after its thinking, a box, a judge's mark.

Filters, metrics, verdict parsers, preprocessors and backends share them, so that one form is read in one way.
"""
