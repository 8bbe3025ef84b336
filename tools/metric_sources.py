"""Where the rule of each metric comes from, and where ours is known to differ; printed by `tools.metrics_page`."""

from dataclasses import dataclass

HARNESS = "lm-eval harness 0.4"
INSPECT = "Inspect AI 0.3.285"
OURS = "gage-eval"


@dataclass(frozen=True)
class Source:
    """The source of a metric's rule, and the known difference from it; None where all rows of its vectors agree."""

    source: str
    difference: str | None = None


_EMPTY_CHOICE = "an empty choice counts as one character long"
_NEAREST = "of several references the nearest counts; texts are normalised as Whisper's authors did"
_TRIED = "several references are tried one after the other; the source compares with one"
SOURCES: dict[str, Source] = {
    "acc": Source(HARNESS),
    "acc_bytes": Source(HARNESS, _EMPTY_CHOICE.replace("character", "byte")),
    "acc_mutual_info": Source(HARNESS),
    "acc_norm": Source(HARNESS, _EMPTY_CHOICE),
    "bfcl_ast": Source("bfcl-eval 2026.3.23, `ast_checker`, for Python"),
    "bfcl_multi_turn": Source("bfcl-eval 2026.3.23, `multi_turn_checker`"),
    "bits_per_byte": Source(HARNESS),
    "bleu": Source("sacrebleu 2"),
    "brier_score": Source(HARNESS),
    "byte_perplexity": Source(HARNESS),
    "choice_points": Source(OURS),
    "choice_set": Source(f"{INSPECT}, `choice`", "letters are read from text; Inspect marks options in its solver"),
    "clip_score": Source(
        "Hessel et al. 2021, CLIPScore, equation 1", "the paper's code has `A photo depicts` before each text"
    ),
    "cer": Source("jiwer 4", _NEAREST),
    "chrf": Source("sacrebleu 2"),
    "classification": Source(f"{OURS}; numbers over classes as in scikit-learn 1.9"),
    "contains": Source(
        f"{INSPECT}, `includes`",
        "an empty reference is in no answer; case is lowered, not folded: `ß` is not `ss`, and `İ` becomes `i` with a "
        "combining dot, two characters",
    ),
    "cruxeval": Source(
        "facebookresearch/cruxeval",
        "an answer is one value or one call of `f`: the source also takes `5 or True` and `'x' or f(1)`; and CPU time "
        "decides, not wall time",
    ),
    "docvqa_anls": Source("official evaluation of DocVQA, Robust Reading Competition"),
    "ece": Source("Guo et al. 2017, On Calibration of Modern Neural Networks"),
    "exact_match": Source(
        f"{HARNESS}, `exact_match`", f"white space at both ends is stripped unless `strip_whitespace: false`; {_TRIED}"
    ),
    "execution_passed": Source(OURS),
    "field_completeness": Source(OURS),
    "greedy_match": Source(f"{HARNESS}, `exact_match` of log-likelihoods"),
    "gaia": Source("GAIA leaderboard, `scorer.py`", "the final answer is read from the whole text"),
    "gsm8k": Source(f"{HARNESS}, task gsm8k version 3", _TRIED),
    "harbor_reward": Source("Harbor 0.26, `verifier`", "Harbor's mean counts a missing reward as 0"),
    "ifeval": Source(
        "google-research, instruction_following_eval",
        "sentences are split with parameters of our own for Punkt: 3 of 4,787 answers have another count; "
        "`language: zh` is any Chinese",
    ),
    "json_fields": Source(OURS),
    "json_schema": Source("JSON Schema 2020-12 by the package jsonschema"),
    "json_valid": Source("RFC 8259"),
    "judge_rating": Source(
        "FastChat, MT-bench `[[rating]]`", "full-width digits are not a rating; the source fails on them"
    ),
    "judge_score": Source(OURS),
    "judge_share": Source(OURS),
    "pairwise_win": Source("Arena-Hard, both orders; averaged per prompt, not per game"),
    "panel_pass": Source(OURS),
    "panel_score": Source(OURS),
    "judge_threshold": Source(
        "GAGE, first version", "the default threshold of 0.5 works; a missing verdict is unscored"
    ),
    "recorded_score": Source("the log of the other tool"),
    "latency": Source("GAGE, first version", "a latency that was not measured is unscored"),
    "length_controlled_win": Source(
        "AlpacaEval 2, `length_controlled_noreg`",
        "both orders averaged; the interval fits again on resampled instructions; published figures also regularise",
    ),
    "likelihood": Source(
        "GAGE, first version", "a missing loss is unscored, not 0; an unknown `metric_type` is refused"
    ),
    "list": Source(OURS),
    "lm_eval": Source("the code of the lm-eval harness itself, 0.4.13"),
    "match": Source(f"{INSPECT}, `match`"),
    "math_equivalence": Source(
        "hendrycks/math and openai/prm800k",
        "`prm800k`: no computer algebra system; a power with a decimal exponent is equal to its root",
    ),
    "mmmu_accuracy": Source("MMMU's evaluation", "the random option of an unparsed answer is drawn by the sample's id"),
    "mmmu_pro_accuracy": Source(
        "MMMU-Pro's evaluation", "the random option of an unparsed answer is drawn by the sample's id"
    ),
    "multi_choice_accuracy": Source(OURS, "the first version took the first capital letter; [the rule](choices.md)"),
    "number": Source(OURS),
    "numeric_match": Source(
        OURS,
        "GAGE's first version and Inspect compare five digits; here whole numbers are compared exactly, others to a "
        "millionth. FinQA's script allows 0.1 %, ToRA's 0.01 %: set `relative_tolerance`. A reference of 18 is not "
        "`18 million`",
    ),
    "pattern": Source(f"{INSPECT}, `pattern`"),
    "psnr": Source("scikit-image 0.26, `peak_signal_noise_ratio`", "at most 100, which equal pictures have"),
    "ranking": Source("GAGE, first version", "`k: 0` and an unknown `metric_type` are refused"),
    "regex_match": Source("GAGE, first version", "patterns respect case unless they say `(?i)`"),
    "rendered_text": Source(f"{OURS}; the text is read by Tesseract"),
    "rouge": Source("rouge-score 0.1.2"),
    "squad": Source("official SQuAD 1.1 script"),
    "ssim": Source("Wang et al. 2004, Image Quality Assessment; scikit-image 0.26, `structural_similarity`"),
    "temporal_iou": Source("Gao et al. 2017 (TALL)", "published scripts read the times by rules of their own"),
    "ter": Source("sacrebleu 2", "very long pairs are compared without shifts, and say so"),
    "tests_passed": Source(OURS),
    "text_length": Source("GAGE, first version"),
    "token_f1": Source(f"{INSPECT}, `f1` and `exact`", "F1 is not rounded to two decimals"),
    "tool_call_match": Source(OURS),
    "tau2_reward": Source(OURS),
    "tool_use": Source(OURS),
    "trajectory_match": Source(OURS),
    "truthfulqa_generation": Source("TruthfulQA's evaluation"),
    "truthfulqa_mc2": Source("TruthfulQA's evaluation"),
    "wer": Source("jiwer 4", _NEAREST),
    "word_perplexity": Source(HARNESS),
}
