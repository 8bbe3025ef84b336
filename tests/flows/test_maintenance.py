"""The form of a sweep takes the ages that the sweep can read, and refuses the others before it begins."""

import pytest
from pydantic import TypeAdapter, ValidationError

from flows.maintenance import Age
from gage_eval.base.errors import InputError
from gage_eval.runs.maintenance import DEFAULT_AGE, age_seconds


@pytest.mark.parametrize("age", ["0s", " 90 m", "12h", "7D", "4w", DEFAULT_AGE])
def test_an_age_that_can_be_read_is_taken(age: str) -> None:
    assert TypeAdapter(Age).validate_python(age) == age
    assert age_seconds(age) >= 0


@pytest.mark.parametrize("age", ["30", "", "d", "-1d", "1y", "1.5h"])
def test_an_age_that_cannot_be_read_is_refused_by_the_form(age: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Age).validate_python(age)
    with pytest.raises(InputError):
        age_seconds(age)
