"""The options of built-in preprocessors (``preprocess_kwargs`` in a config), each declared once.

A built-in preprocessor is a model of its options with a method ``to_sample(record)``. An option that several of them
share is one of the types below; each class states only its own default.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias

from pydantic import Field

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
