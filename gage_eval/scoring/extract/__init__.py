"""Extract a part of a model's text: the answer after its thinking, a box, a judge's mark.

Filters, metrics, verdict parsers, preprocessors and backends share these rules, so each form is read in one way.
"""
