"""From the records of a source to Samples."""

from gage_eval.preprocess.base import Preprocessor

__all__ = ["Preprocessor"]
