"""Loaders of records, filters on records, and the choice of rows."""

from gage_eval.data.datasets.base import Loader, Record
from gage_eval.data.datasets.filter import Filter
from gage_eval.data.datasets.select import reservoir, select

__all__ = ["Filter", "Loader", "Record", "reservoir", "select"]
