"""From Samples to prepared rows: few-shot examples, media and images. Models take no part in this step."""
