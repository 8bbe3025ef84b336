"""Prompts: templates of the config, rendered with what a sample and a run hold."""

from gage_eval.prompts.render import MAX_OUTPUT, PromptError, PromptRenderer

__all__ = ["MAX_OUTPUT", "PromptError", "PromptRenderer"]
