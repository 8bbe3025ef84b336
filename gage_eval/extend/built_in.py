"""The built-in plug-ins: for each kind and module, the names that the module registers.

A run imports only the modules of the plug-ins that it uses. A new built-in plug-in needs its name here;
tests/extend/test_built_in.py compares this table with what the modules register.
"""

from collections.abc import Mapping

Names = tuple[str, ...]

PACKAGES = {
    "loaders": "gage_eval.data.datasets",
    "preprocessors": "gage_eval.data.standardize",
    "backends": "gage_eval.models.backends",
    "metrics": "gage_eval.scoring.metrics.builtin",
    "filters": "gage_eval.scoring.metrics.filters",
    "verdict_parsers": "gage_eval.scoring.metrics.verdict_parsers",
    "aggregations": "gage_eval.scoring.metrics.aggregations",
    "tools": "gage_eval.engine.tools",
}

NAMES: Mapping[str, Mapping[str, Names]] = {
    "loaders": {
        "bfcl": ("bfcl",),
        "csv_file": ("csv", "tsv"),
        "files": ("files",),
        "harbor": ("harbor",),
        "hf_hub": ("hf_hub",),
        "inline": ("inline",),
        "json_file": ("json",),
        "jsonl": ("jsonl",),
        "parquet_file": ("parquet",),
        "tau2": ("tau2", "tau2_domain"),
        "xlsx_file": ("xlsx",),
    },
    "preprocessors": {
        "agieval": ("agieval",),
        "cruxeval": ("cruxeval",),
        "default": ("default",),
        "gaia": ("gaia",),
        "livecodebench": ("livecodebench",),
        "mmmu": ("mmmu", "mmmu_pro"),
        "multi_choice": ("multi_choice", "multi_choice_struct_only"),
        "pictures": ("docvqa",),
        "programs": ("humaneval", "humaneval_plus", "mbpp", "mbpp_plus"),
        "preference": ("preference",),
        "simple": ("agent", "mt_bench", "simple", "strip_assistant"),
        "solutions": ("bbh", "gsm8k", "ifeval", "math"),
        "subjects": ("cmmlu", "hellaswag", "mmlu", "piqa", "truthfulqa_generation", "truthfulqa_mc"),
    },
    "backends": {
        "custom_script": ("custom_script",),
        "dummy": ("dummy",),
        "hf_transformers": ("transformers", "vlm_transformers"),
        "llama_cpp": ("llama_cpp",),
        "openai_http": ("openai_http",),
        "openai_media": ("openai_images", "openai_speech", "openai_transcriptions", "openai_videos"),
        "replay": ("replay",),
        "vllm": ("vllm",),
        "vllm_native": ("vllm_native",),
    },
    "metrics": {
        "bfcl": ("bfcl_multi_turn",),
        "bfcl_ast": ("bfcl_ast",),
        "calculators": ("field_completeness", "list", "number"),
        "choice": ("multi_choice_accuracy",),
        "choice_set": ("choice_points", "choice_set"),
        "classes": ("classification",),
        "docvqa": ("docvqa_anls",),
        "execution": ("cruxeval", "execution_passed", "tests_passed"),
        "gaia": ("gaia",),
        "gsm8k": ("gsm8k",),
        "harbor": ("harbor_reward",),
        "ifeval": ("ifeval",),
        "json_fields": ("json_fields",),
        "judging": (
            "clip_score",
            "judge_rating",
            "judge_score",
            "judge_share",
            "judge_threshold",
            "length_controlled_win",
            "pairwise_win",
            "panel_pass",
            "panel_score",
        ),
        "latency": ("latency",),
        "lm_eval": ("lm_eval",),
        "loglikelihood": ("acc", "acc_bytes", "acc_mutual_info", "acc_norm", "brier_score", "ece", "greedy_match"),
        "match": ("match", "pattern"),
        "math_equivalence": ("math_equivalence",),
        "mmmu": ("mmmu_accuracy", "mmmu_pro_accuracy"),
        "numeric": ("numeric_match",),
        "perplexity": ("bits_per_byte", "byte_perplexity", "likelihood", "word_perplexity"),
        "pictures": ("psnr", "rendered_text", "ssim"),
        "ranking": ("ranking",),
        "recorded": ("recorded_score",),
        "rouge": ("rouge",),
        "speech": ("cer", "wer"),
        "squad": ("squad", "token_f1"),
        "structured": ("json_schema", "json_valid"),
        "tau2": ("tau2_reward",),
        "temporal": ("temporal_iou",),
        "text": ("contains", "exact_match", "regex_match", "text_length"),
        "tool_calls": ("tool_call_match", "tool_use", "trajectory_match"),
        "translation": ("bleu", "chrf", "ter"),
        "truthfulqa": ("truthfulqa_generation", "truthfulqa_mc2"),
    },
    "filters": {
        "basic": ("choice_letter", "first_number", "last_number", "regex", "strip_thinking"),
        "code": ("before", "between", "code_block", "cruxeval", "sanitize"),
        "extract": ("agieval_math", "answer", "boxed", "json_field", "letters", "rating"),
        "harness": ("flexible-extract", "strict-match"),
        "replicates": ("majority_vote", "take_first"),
        "verdict": ("pairwise_verdict", "two_ratings"),
    },
    "verdict_parsers": {
        "by_filters": ("filters",),
        "lines": ("default", "rubric", "two_ratings"),
    },
    "aggregations": {
        "basic": (
            "counts",
            "extracted_counts",
            "identity",
            "max",
            "mean",
            "median",
            "min",
            "p{q}",
            "std",
            "weighted_mean",
        ),
        "classes": (
            "class_f1",
            "class_precision",
            "class_recall",
            "confusion",
            "macro_f1",
            "macro_precision",
            "macro_recall",
            "mcc",
            "micro_f1",
            "weighted_f1",
        ),
        "corpus": ("corpus_ece", "perplexity", "ratio"),
        "lm_eval": ("lm_eval",),
        "replicates": ("at_least@{k}", "best", "cruxeval_pass@{k}", "majority", "mode", "pass@{k}", "pass^{k}"),
        "text_corpus": ("corpus_bleu", "corpus_chrf", "corpus_ter"),
        "win_rates": ("length_controlled",),
    },
    "tools": {
        "bfcl": ("bfcl",),
        "box": ("bash", "python"),
        "tau2": ("tau2_airline", "tau2_retail", "tau2_telecom", "tau2_telecom_user"),
        "tau2_mock": ("tau2_mock", "tau2_mock_user"),
    },
}


def modules_of(kind: str) -> dict[str, str]:
    """The module of each built-in plug-in of a kind, by the plug-in's name."""
    package, modules = PACKAGES[kind], NAMES[kind]
    return {name: f"{package}.{module}" for module, names in modules.items() for name in names}
