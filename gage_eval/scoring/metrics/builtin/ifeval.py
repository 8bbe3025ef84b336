"""IFEval: instructions whose following a program can check."""

from collections.abc import Mapping

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.ifeval import follow


@metric(
    "ifeval",
    value=("prompt_strict", "inst_strict", "prompt_loose", "inst_loose"),
    aggregate={"inst_strict": "ratio", "inst_loose": "ratio"},
    binary=("prompt_strict", "prompt_loose"),
    bounds=(0, 1),
    version=4,
    fields={"instructions": "sample.instruction_id_list", "arguments": "sample.kwargs"},
    libraries=("langdetect", "nltk"),
)
def ifeval(prediction: str, instructions: JsonValue, arguments: JsonValue) -> Score:
    """Share of the prompts, and of the instructions, that the answers follow, strictly and loosely (IFEval).

    Rules of google-research ``instruction_following_eval`` (Zhou et al. 2023, arXiv:2311.07911), all 25
    instructions. Strict takes the answer as it is; loose takes the best of eight variants (first, last or both lines
    removed; stars removed). ``prompt_…`` is 1 when all instructions are followed; ``inst_…`` is Σ followed /
    Σ instructions over all prompts, never a mean of shares. Languages are detected by langdetect,
    seeded. Sentences and words are split by nltk's Punkt with our own parameters, because those of nltk have no
    licence (`gage_eval.scoring.metrics.ifeval.sentences`); in 4,787 answers of models, 3 counts of sentences differ.
    """
    if not isinstance(instructions, list) or not isinstance(arguments, list) or not instructions:
        return Score.unscored("instruction_id_list and kwargs are not lists")
    names = [str(name) for name in instructions]
    kwargs = [item if isinstance(item, Mapping) else {} for item in arguments]
    try:
        followed = follow(prediction, names, kwargs)
    except ValueError as error:
        return Score.unscored(str(error))
    broken = [name for name, follows in zip(names, followed.strict, strict=True) if not follows]
    strict, loose = sum(followed.strict), sum(followed.loose)
    return Score(
        {
            "prompt_strict": float(all(followed.strict)),
            "inst_strict": strict / len(names),
            "prompt_loose": float(all(followed.loose)),
            "inst_loose": loose / len(names),
        },
        explanation=f"not followed strictly: {', '.join(broken)}" if broken else None,
        components={"inst_strict": [strict, len(names)], "inst_loose": [loose, len(names)]},
    )
