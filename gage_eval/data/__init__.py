"""From records to prepared rows: loaders, the Sample contract, preprocessors, few-shot examples, prompts."""
