"""The preprocessor for AGIEval."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import option_letter
from gage_eval.data.standardize.base import BuiltInPreprocessor
from gage_eval.data.standardize.choices import Choice, set_options
from gage_eval.data.standardize.fields import carry_over, object_of, read, text_of
from gage_eval.data.standardize.options import SystemPrompt
from gage_eval.extend import registry

_USED = ("passage", "question", "options", "label", "answer", "messages", "other")


@registry.preprocessors.register("agieval", version=1)
class AgiEval(BuiltInPreprocessor):
    """AGIEval (Zhong et al. 2023) in its authors' zero-shot format: options in one line, and the start of the answer.

    A record without options is a cloze question. The references are all right letters; `metadata.letters` joins them.
    """

    language: Annotated[Literal["en", "zh"], Field(description="The language of the format.")] = "en"
    set_field: Annotated[
        str, Field(description="The exam, for `data_tag.set`; the loader's `source_field` can fill it.")
    ] = "set"
    system_prompt: SystemPrompt = None

    def to_sample(self, record: dict[str, Any]) -> dict[str, Any]:
        passage, question, options = (read(record, field) for field in ("passage", "question", "options"))
        if question is None:
            raise RecordRejected("question: it is missing.")
        start = "" if passage is None else text_of(passage, "passage")
        sample = carry_over(record, (*_USED, self.set_field))
        if options:
            text, facts = self._choice(sample, text_of(question, "question"), options, read(record, "label"))
        else:
            text, facts = self._cloze(sample, text_of(question, "question"), read(record, "answer"))
        name = read(record, self.set_field)
        if name is not None:
            sample["data_tag"] = {"set": text_of(name, self.set_field), **object_of(sample, "data_tag")}
        return self.finished(record, sample, f"{start}{text}", sample["references"], sample["task_type"], facts)

    def _choice(self, sample: dict[str, Any], question: str, options: Any, label: Any) -> tuple[str, dict[str, Any]]:
        if type(options) is not list or len(options) < 2:
            raise RecordRejected(f"options: they must be a list of two or more texts, not {kind_of(options)}.")
        choices = [Choice(option_letter(place), text_of(text, "options")) for place, text in enumerate(options)]
        known = [choice.id for choice in choices]
        right = [text_of(item, "label").strip() for item in (label if type(label) is list else [label])]
        letters = sorted({letter for text in right for letter in text})
        if not letters or any(letter not in known for letter in letters):
            raise RecordRejected(f"label: {label!r} does not name options of {', '.join(known)}.")
        facts = set_options(sample, choices, letters[0], 0, "label")
        sample["references"] = letters
        sample["task_type"] = "multiple-choice"
        listed, last = " ".join(choice.text for choice in choices), known[-1]
        if self.language == "en":
            text = f"Q: {question} Answer Choices: {listed}\nA: Among A through {last}, the answer is"
        else:
            text = f"问题：{question} 选项：{listed}\n答案：从A到{last}, 我们应选择"
        return text, {**facts, "question_text": question, "letters": "".join(letters)}

    def _cloze(self, sample: dict[str, Any], question: str, answer: Any) -> tuple[str, dict[str, Any]]:
        if answer is None:
            raise RecordRejected("answer: it is missing, and there are no options.")
        sample["references"] = [text_of(answer, "answer")]
        sample["task_type"] = "short-answer"
        question_text = f"Q: {question}\nA: The answer is" if self.language == "en" else f"问题：{question}\n答案："
        return question_text, {"question_text": question}
