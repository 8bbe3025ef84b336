"""Rows of the official vectors that these metrics answer otherwise on purpose, each with its reason."""

_SEES_LETTERS = "thinking, rejected options and words are not choices"
_TEXT = "an option's text counts as whole words, the longest first"
_NUMBERS = "currency, units, separators, fractions and percent signs are read"

GAGE_INITIAL: dict[str, str] = {
    "gage_initial-c480d3a297": _SEES_LETTERS,
    "gage_initial-6853010c7a": _SEES_LETTERS,
    "gage_initial-6bcfa1242f": _SEES_LETTERS,
    "gage_initial-cfb48304ab": _SEES_LETTERS,
    "gage_initial-4247a778c3": "two options in brackets are not a choice",
    "gage_initial-f4321b1410": _TEXT,
    "gage_initial-bf92f41f02": _TEXT,
    "gage_initial-aad3608a0b": _TEXT,
    "gage_initial-c404c865b3": _NUMBERS,
    "gage_initial-4ef7301cce": _NUMBERS,
    "gage_initial-7fa68e4bcf": _NUMBERS,
    "gage_initial-2eec124ee7": _NUMBERS,
    "gage_initial-ba1ff62c33": _NUMBERS,
    "gage_initial-687bbcf7ed": _NUMBERS,
    "gage_initial-45ba50ae77": _NUMBERS,
    "gage_initial-c8813faa14": _NUMBERS,
    "gage_initial-813e4e402e": _NUMBERS,
    "gage_initial-68e2fe67c4": "numbers with a fraction are equal to a millionth of the reference",
    "gage_initial-38a772e909": "an unknown mode is refused",
    "gage_initial-c41765c47b": "true is not a number",
    "gage_initial-96bb3074b6": "false is not a number",
    "gage_initial-c58d5091ce": "true is not a number",
    "gage_initial-c4a93bd856": "patterns respect case unless they say (?i)",
}

# A row that the model did not cause is unscored; the first version gave 0 (or whatever stood in its place).
UNSCORED_REASONS = (
    "model_output.answer is missing",
    "sample.label is missing",
    "sample.metadata.correct_choice is missing",
    "the reference is not a number",
    "no latency was measured",
    "-1.0 is not a duration",
    "is not one of the options",
    "the options are neither a mapping",
)

INSPECT: dict[str, str] = {
    "inspect_ai_scorers-aba7ef43a6": "an empty reference is in nothing",
    "inspect_ai_scorers-ae93c143fa": "an empty reference is in nothing",
    "inspect_ai_scorers-3ab3766eb0": "case is lowered, not folded: ß is not ss",
}

_ONE = "one value has no known spread: null, not 0"
_ONE_CLUSTER = "one cluster has no known spread: null, not 0"

INSPECT_METRICS: dict[str, str] = {
    "inspect_ai_metrics-409ca8c0d3": _ONE,
    "inspect_ai_metrics-bbe9bacde2": _ONE,
    "inspect_ai_metrics-bfe4161541": _ONE,
    "inspect_ai_metrics-e285bb1965": _ONE,
    "inspect_ai_metrics-2335cfb924": _ONE_CLUSTER,
    "inspect_ai_metrics-274e2de2e5": _ONE_CLUSTER,
    "inspect_ai_metrics-46179cbc4e": _ONE_CLUSTER,
    "inspect_ai_metrics-5a2e9966cc": _ONE_CLUSTER,
    "inspect_ai_metrics-aad404fe9b": _ONE_CLUSTER,
    "inspect_ai_metrics-bd5364ccd9": _ONE_CLUSTER,
    "inspect_ai_metrics-d57f39a223": _ONE_CLUSTER,
}

_ABOVE = "n answers cannot tell pass@k for k > n; the official script never asks"

HUMANEVAL: dict[str, str] = {
    "humaneval_pass_at_k-019a627ed8": _ABOVE,
    "humaneval_pass_at_k-7af2d93ecd": _ABOVE,
    "humaneval_pass_at_k-04a0980d43": _ABOVE,
    "humaneval_pass_at_k-6d68b7fec2": _ABOVE,
    "humaneval_pass_at_k-db45225511": _ABOVE,
    "humaneval_pass_at_k-33b2c62f58": _ABOVE,
    "humaneval_pass_at_k-c75f2ad4dc": _ABOVE,
}

_MIDDLE = "the median of an even number is the mean of the middle two, not the upper one"

LM_EVAL_MEDIANS: dict[str, str] = {
    "lm_eval_stats-71d0265308": _MIDDLE,
    "lm_eval_stats-452cb6e5c4": _MIDDLE,
    "lm_eval_stats-4f82e3f886": _MIDDLE,
    "lm_eval_stats-cab46d5dbf": _MIDDLE,
    "lm_eval_stats-5e9d904850": _MIDDLE,
    "lm_eval_stats-b341a4eda6": _MIDDLE,
    "lm_eval_stats-611cb0fe44": _MIDDLE,
    "lm_eval_stats-2c515cfb0a": _MIDDLE,
    "lm_eval_stats-b813d7d822": _MIDDLE,
    "lm_eval_stats-aa80b70175": _MIDDLE,
    "lm_eval_stats-98eb616592": _MIDDLE,
    "lm_eval_stats-de9180fbab": _MIDDLE,
    "lm_eval_stats-c02af57d6e": _MIDDLE,
    "lm_eval_stats-b00d1a18e2": _MIDDLE,
    "lm_eval_stats-50365c0df9": _MIDDLE,
    "lm_eval_stats-8f6743c6b9": _MIDDLE,
    "lm_eval_stats-256fe19e3c": _MIDDLE,
    "lm_eval_stats-0fe09bec56": _MIDDLE,
    "lm_eval_stats-c44b59d251": _MIDDLE,
    "lm_eval_stats-32699d769f": _MIDDLE,
    "lm_eval_stats-98e0eff36f": _MIDDLE,
}

MATH: dict[str, str] = {
    "math_equivalence-2519cccf8e": "a missing reference leaves the row unscored",
}

MT_BENCH: dict[str, str] = {
    "mt_bench_judge_parse-127794a6e5": "full-width digits are not a rating; the official code raises",
}

# Here the official rules of MMMU and DocVQA decide, which the first version did not follow.
_OFFICIAL_LETTERS = "officially only a capital letter between spaces or in brackets is a choice"
_OFFICIAL_THINKING = "officially letters in thinking count; the filter strip_thinking removes them"
_OFFICIAL_LENGTHS = "officially the lengths are those of the strings before stripping"
_KIND = "an unknown metric_type is refused"

GAGE_INITIAL_BENCHMARKS: dict[str, str] = {
    "gage_initial-5734a53bd5": _OFFICIAL_LETTERS,
    "gage_initial-184c5be57f": _OFFICIAL_LETTERS,
    "gage_initial-c5fe03542f": _OFFICIAL_LETTERS,
    "gage_initial-749e3f44c0": _OFFICIAL_LETTERS,
    "gage_initial-6ce67dbc0b": _OFFICIAL_LETTERS,
    "gage_initial-27d25b54e2": _OFFICIAL_LETTERS,
    "gage_initial-828d680057": _OFFICIAL_LETTERS,
    "gage_initial-6531fcdf9c": _OFFICIAL_LETTERS,
    "gage_initial-b8151b94eb": _OFFICIAL_LETTERS,
    "gage_initial-0ac7fa7d61": _OFFICIAL_LETTERS,
    "gage_initial-395f1e93e3": _OFFICIAL_LETTERS,
    "gage_initial-080ddc98d8": _OFFICIAL_LETTERS,
    "gage_initial-832cb93a84": _OFFICIAL_THINKING,
    "gage_initial-b8d56c8003": _OFFICIAL_THINKING,
    "gage_initial-38cbef8d40": _OFFICIAL_LENGTHS,
    "gage_initial-4a670403b2": _OFFICIAL_LENGTHS,
    "gage_initial-68d1710b52": _OFFICIAL_LENGTHS,
    "gage_initial-2a804be29e": _OFFICIAL_LENGTHS,
    "gage_initial-1628664338": _OFFICIAL_LENGTHS,
    "gage_initial-3734ae56c0": _OFFICIAL_LENGTHS,
    "gage_initial-8521eb0f11": "officially an empty gold answer is in every answer",
    "gage_initial-9b9e69fa28": "officially a number within underscores is text",
    "gage_initial-00a8e91767": "officially the digit 5 within 3.14159 is not the number 5",
    "gage_initial-07418ec35e": "the default threshold works",
    "gage_initial-662f8a28cf": "k of 0 is refused",
    "gage_initial-a415632c53": _KIND,
    "gage_initial-a2d60d987e": _KIND,
    "gage_initial-d24e42f690": _KIND,
    "gage_initial-daca0cbae9": _KIND,
    "gage_initial-2975a2f5ec": _KIND,
    "gage_initial-cd6a732110": _KIND,
}

# A row that the model did not cause is unscored; the first version gave 0, or passed over what is not a number.
UNSCORED_BENCHMARK_REASONS = (
    "model_output.answer is missing",
    "sample.targets is missing",
    "judge_output.parsed.score is missing",
    "there is no accepted answer",
    "there is no target",
    "the judge's score",
    "is not a log probability",
    "the response has no log probabilities",
)
