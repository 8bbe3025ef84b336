"""Preprocessors: plug-ins that turn a record of a source into a Sample (``preprocess:`` of a dataset)."""

from gage_eval.data.standardize.fields import Preprocessor

__all__ = ["Preprocessor"]
