"""The base of built-in preprocessors, and the messages that they make.

A built-in preprocessor is a class whose arguments are the config's ``preprocess_kwargs``. Its ``to_sample`` turns one
record into a Sample-shaped dict (`gage_eval.data.sample.rules.normalise_sample` settles the rest) or raises
`RecordRejected`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

from gage_eval.base.errors import InputError
from gage_eval.data.standardize.compose import check_roles
from gage_eval.data.standardize.fields import FieldMap, object_of
from gage_eval.data.standardize.options import Fields
from gage_eval.data.standardize.template import QuestionTemplate


def build_messages(question: str | list[dict[str, Any]], system_prompt: str | None) -> list[dict[str, Any]]:
    """One user message, of text or segments, after the system message if there is one."""
    user = {"role": "user", "content": question}
    return [{"role": "system", "content": system_prompt}, user] if system_prompt else [user]


def image_segment(address: str) -> dict[str, Any]:
    """The segment of a message that shows the image at an address."""
    return {"type": "image_url", "image_url": {"url": address}}


PreprocessorT = TypeVar("PreprocessorT", bound="BuiltInPreprocessor")


class BuiltInPreprocessor(BaseModel):
    """A built-in preprocessor: a model of its options.

    Raises:
        InputError: its options contradict each other or cannot work.
    """

    # Built at once: until a model is built, its signature is that of its parent, and options are read from it.
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    fields: Fields = None

    @abstractmethod
    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        """The Sample-shaped form of a record; the record is not changed.

        Raises:
            RecordRejected: the record cannot be a Sample.
        """

    def finished(
        self,
        record: Mapping[str, Any],
        sample: dict[str, Any],
        question: str | list[dict[str, Any]],
        references: list[Any],
        task_type: str,
        metadata: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """The sample with what every preprocessor gives it, and with the options ``system_prompt`` and ``fields``.

        Args:
            record: what it is made of.
            sample: what is there so far, which is changed.
            question: the user's message, text or segments.
            references: the correct answers.
            task_type: its type.
            metadata: what its metadata get.
        """
        sample["messages"] = build_messages(question, getattr(self, "system_prompt", None))
        sample |= {"references": references, "task_type": task_type}
        if metadata:
            sample["metadata"] = {**object_of(sample, "metadata"), **metadata}
        self.field_map.apply(record, sample)
        return sample

    def like(self, other: type[PreprocessorT], **options: Any) -> PreprocessorT:
        """Another preprocessor with these options, and with the ones of this that it has as well."""
        shared = type(self).model_fields.keys() & other.model_fields.keys()
        return other(**{**{name: getattr(self, name) for name in shared}, **options})

    def check(self) -> None:
        """Refuse options that cannot work.

        Raises:
            InputError: names the option and what it should be.
        """
        _ = self.field_map, self.user_message, self.removed_roles
        base = getattr(self, "answer_index_base", 0)
        if base not in (0, 1):
            raise InputError(f"answer_index_base: it must be 0 or 1, not {base!r}.")

    @cached_property
    def field_map(self) -> FieldMap:
        """The option ``fields``, with ``id_field`` where the class has one."""
        return FieldMap(self.fields, getattr(self, "id_field", None))

    @cached_property
    def user_message(self) -> QuestionTemplate | None:
        """The compiled ``template``; None without one."""
        template = getattr(self, "template", None)
        return None if template is None else QuestionTemplate(template)

    @cached_property
    def removed_roles(self) -> frozenset[str]:
        """The roles of ``roles_to_remove``; empty where the class has no such option."""
        return check_roles(getattr(self, "roles_to_remove", ()))

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self


def options_of(preprocessor: type[BuiltInPreprocessor]) -> Iterator[tuple[str, Any, Any, str]]:
    """(name, type, default, description) of each option of a built-in preprocessor."""
    for name, field in preprocessor.model_fields.items():
        yield name, field.annotation, field.default, field.description or ""
