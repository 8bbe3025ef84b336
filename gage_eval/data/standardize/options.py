"""The options of built-in preprocessors (``preprocess_kwargs`` in a config), each declared once.

A built-in preprocessor is a model of its options with a method ``to_sample(record)``. An option that several of them
share is one of the types below; each class states only its own default.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gage_eval.base.errors import InputError
from gage_eval.data.standardize.base import FieldMap
from gage_eval.data.standardize.compose import check_roles
from gage_eval.data.standardize.template import QuestionTemplate

Question: TypeAlias = Annotated[str | None, Field(description="One question for all records, where they have none.")]
QuestionField: TypeAlias = Annotated[str, Field(description="The record's question.")]
AnswerField: TypeAlias = Annotated[str | None, Field(description="The answer, one or a list; null for sets without.")]
IdField: TypeAlias = Annotated[str, Field(description="The record's id.")]
ChoicesField: TypeAlias = Annotated[
    str | Sequence[str] | None,
    Field(description="The candidates, or a list of fields that hold one each. Default `choices`."),
]
AnswerIndexBase: TypeAlias = Annotated[int, Field(description="The base of an index as answer, 0 or 1.")]
RolesToRemove: TypeAlias = Annotated[Sequence[str], Field(description="The roles whose messages are removed.")]
SystemPrompt: TypeAlias = Annotated[str | None, Field(description="The system message.")]
Instruction: TypeAlias = Annotated[
    str | None, Field(description="The last paragraph of the user message; null for none.")
]
Template: TypeAlias = Annotated[
    str | None,
    Field(description="Jinja text of the user message; it sees `question`, `options` and `record`."),
]
TaskType: TypeAlias = Annotated[str, Field(description="The samples' task type.")]
DefaultTaskType: TypeAlias = Annotated[str | None, Field(description="The task type of records that state none.")]
Fields: TypeAlias = Annotated[
    Mapping[str, str] | None,
    Field(
        description='Further fields of the Sample → fields of the record, as `{"data_tag.topic": "subject"}`. `image`, '
        "`audio`, `video` and `file` are media that stand before the question."
    ),
]


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
