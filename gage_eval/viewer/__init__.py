"""gage view: stored runs as pages in a browser, from a score to the reason behind it.

The pages read runs through `gage_eval.runs.results.reading`. What lists, filters and sorts a million answers is an
index of each task (`index`), a DuckDB file in a cache folder that is built once.
"""
