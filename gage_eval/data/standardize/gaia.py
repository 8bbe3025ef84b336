"""The preprocessor of questions in GAIA's form, each with a file or without."""

from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import inside
from gage_eval.data.standardize.base import BuiltInPreprocessor
from gage_eval.data.standardize.default import Default
from gage_eval.data.standardize.fields import object_of, read, text_of
from gage_eval.data.standardize.options import IdField, QuestionField, SystemPrompt
from gage_eval.extend import registry

_PROMPT = (
    "You are a general AI assistant. I will ask you a question. Report your thoughts, and finish your answer with the "
    "following template: FINAL ANSWER: [YOUR FINAL ANSWER]. YOUR FINAL ANSWER should be a number OR as few words as "
    "possible OR a comma separated list of numbers and/or strings. If you are asked for a number, don't use comma to "
    "write your number neither use units such as $ or percent sign unless specified otherwise. If you are asked for a "
    "string, don't use articles, neither abbreviations (e.g. for cities), and write the digits in plain text unless "
    "specified otherwise. If you are asked for a comma separated list, apply the above rules depending of whether the "
    "element to be put in the list is a number or a string."
)


@registry.preprocessors.register("gaia", version=1)
class Gaia(BuiltInPreprocessor):
    """Questions in GAIA's form (Mialon et al. 2023): the answer is the reference, the file is put into the box.

    The question is followed by the name that its file has in the box. The level goes into ``data_tag.level``.
    """

    question_field: QuestionField = "Question"
    answer_field: Annotated[str, Field(description="The final answer.")] = "Final answer"
    id_field: IdField = "task_id"
    file_field: Annotated[str, Field(description="The name of the question's file; empty or null for none.")] = (
        "file_name"
    )
    folder: Annotated[str, Field(description="The folder of the files, below the dataset's `content_root`.")] = "."
    system_prompt: SystemPrompt = _PROMPT

    @cached_property
    def _default(self) -> Default:
        return self.like(Default, task_type="short-answer")

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        sample = self._default.to_sample(record)
        file, level = read(record, self.file_field), read(record, "Level")
        if level is not None:
            sample["data_tag"] = {**object_of(sample, "data_tag"), "level": text_of(level, "Level")}
        if file in (None, ""):
            return sample
        name = text_of(file, self.file_field)
        if not inside(name):
            raise RecordRejected(f"{self.file_field}: it must be the path of a file below the folder of the files.")
        *before, user = sample["messages"]
        content = f"{user['content']}\n\nThe file of this question is {name} in the working folder."
        sample["messages"] = [*before, {**user, "content": content}]
        sample["sandbox"] = {"files": {name: str(PurePosixPath(self.folder, name))}}
        return sample
