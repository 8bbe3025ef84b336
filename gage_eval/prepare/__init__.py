"""From Samples to prepared rows: few-shot examples, media and images. No model has a part in it."""
