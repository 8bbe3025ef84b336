"""Prompt templates of the config, rendered for each sample."""

from gage_eval.data.prompts.render import MAX_OUTPUT, PromptError, PromptRenderer, misspelt_variables

__all__ = ["MAX_OUTPUT", "PromptError", "PromptRenderer", "misspelt_variables"]
