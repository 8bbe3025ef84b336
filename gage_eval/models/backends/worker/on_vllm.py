"""vLLM's offline engine, fed one request at a time and batching by itself."""

import inspect
import itertools
import json
from collections.abc import Mapping
from typing import Any

from gage_eval.models.backends.worker.chat import (
    TEMPLATE,
    image_token,
    plain,
    render,
    render_seen,
    template_variables,
    with_images,
)
from gage_eval.models.backends.worker.likelihood import ForwardPass, entry
from gage_eval.models.backends.worker.scoring import Scoring
from gage_eval.models.backends.worker.serve import (
    Fatal,
    GivenUp,
    Gone,
    WorkerRequest,
    WorkerResponse,
    answered,
    failed,
    fitting,
)
from gage_eval.models.backends.worker.token_ids import token_digest

_TOO_LONG = ("maximum model length", "max_model_len", "maximum context length", "longer than the maximum")


async def load(options: Mapping[str, Any]) -> "VLLMEngine":
    """Start the engine. Errors are in the log."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    # The statistics are read by no code, and take a fourth of this process' time for each token.
    arguments = {"disable_log_stats": True, **options["arguments"]}
    if options["lora"]:
        arguments["enable_lora"] = True
    # Without a context vLLM batches 128 sequences, and 1024 on a GPU of 70 GiB or more when it works offline.
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments), usage_context=UsageContext.LLM_CLASS)
    tokenizer = engine.get_tokenizer()
    if inspect.isawaitable(tokenizer):
        tokenizer = await tokenizer
    return VLLMEngine(engine, tokenizer, options)


class VLLMEngine:
    """Adds each request at once, with its own id. Requests end independently of each other."""

    library = "vllm"

    def __init__(self, engine: Any, tokenizer: Any, options: Mapping[str, Any]) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._options = options
        self._ids = itertools.count()
        self._longest = int(engine.model_config.max_model_len)
        self._defaults: dict[str, Any] = engine.model_config.get_diff_sampling_param() or {}
        self._scoring = Scoring(tokenizer, tokenizer, options, self._longest)
        self._processor: Any = None
        self._lora = _adapter(options["lora"])

    async def answer(self, request: WorkerRequest) -> WorkerResponse:
        """The response to a request."""
        if request["kind"] == "likelihood":
            return await self._scoring.answer(request, self._score)
        output = await self._generate(self._prompt(request), self._sampling(request["params"]))
        first = output.outputs[0]
        if first.finish_reason == "abort":
            raise GivenUp(failed("aborted", "the engine gave the request up"))
        response = answered(first.text, first.finish_reason, len(output.prompt_token_ids or ()), len(first.token_ids))
        if output.prompt_token_ids:
            response["prompt_digest"] = token_digest(output.prompt_token_ids)
        if first.logprobs:
            response["logprobs"] = json.dumps({"content": _token_logprobs(first.token_ids, first.logprobs)})
        return response

    def _prompt(self, request: WorkerRequest) -> dict[str, Any]:
        if request["kind"] == "completion":
            return {"prompt_token_ids": fitting(self._tokenizer.encode(request["prompt"]), self._longest)}
        options = template_variables(request["params"])
        if request.get("images"):
            messages, images = with_images(request["messages"])
            processor = self._with_processor()
            text = render_seen(processor, messages, len(images), image_token(processor), request.get("tools"), options)
            return {"prompt": text, "multi_modal_data": {"image": images}}
        text = render(self._tokenizer, plain(request["messages"]), request.get("tools"), options)
        return {"prompt_token_ids": fitting(self._tokenizer.encode(text, add_special_tokens=False), self._longest)}

    def _with_processor(self) -> Any:
        if self._processor is None:
            from transformers import AutoProcessor

            arguments = self._options["arguments"]
            self._processor = AutoProcessor.from_pretrained(
                arguments["model"],
                revision=arguments.get("revision"),
                trust_remote_code=arguments.get("trust_remote_code", False),
            )
        return self._processor

    def _sampling(self, params: Mapping[str, Any]) -> Any:
        """vLLM's sampling parameters; what a request does not say, the model's generation_config does."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        own = {name: value for name, value in params.items() if value is not None and name not in TEMPLATE}
        if "max_new_tokens" in own:
            own["max_tokens"] = own.pop("max_new_tokens")
        tokens = own.pop("token_logprobs", None)
        if own.get("logprobs") is True:
            own["logprobs"] = own.pop("top_logprobs", None) or 1
        if (loops := own.pop("repetition_detection", None)) is not None:
            from vllm.sampling_params import RepetitionDetectionParams

            own["repetition_detection"] = RepetitionDetectionParams(**loops)
        if tokens is not None:
            own["logprobs"] = max(tokens, own.get("logprobs") or 0)
        try:
            if "logit_bias" in own:  # JSON has no keys that are numbers.
                own["logit_bias"] = {int(token): bias for token, bias in own["logit_bias"].items()}
            return SamplingParams(
                **{"max_tokens": None, **self._defaults, **own, "output_kind": RequestOutputKind.FINAL_ONLY}
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise Fatal(f"vLLM refuses the sampling parameters: {error}") from error

    async def _generate(self, prompt: Any, sampling: Any) -> Any:
        """The engine's last output for a prompt.

        Raises:
            GivenUp: it does not take it, or gives none.
            Gone: the engine is dead.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        output = None
        stream = self._engine.generate(prompt, sampling, f"gage-{next(self._ids)}", lora_request=self._lora)
        try:
            async for piece in stream:
                output = piece
        except EngineDeadError as error:
            raise Gone from error
        except ValueError as error:
            too_long = any(phrase in str(error) for phrase in _TOO_LONG)
            raise GivenUp(failed("context_too_long" if too_long else "bad_request", str(error))) from error
        if output is None:
            raise GivenUp(failed("aborted", "the engine gave no answer"))
        return output

    async def _score(self, scored: ForwardPass) -> dict[str, Any]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        # The prompt's own tokens and no others: each further one costs as much again, at every place.
        sampling = SamplingParams(
            max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        output = await self._generate({"prompt_token_ids": scored.tokens}, sampling)
        logprobs = [
            output.prompt_logprobs[index][scored.tokens[index]] for index in range(scored.start, len(scored.tokens))
        ]
        greedy = all(logprob.rank == 1 for logprob in logprobs)
        return entry([logprob.logprob for logprob in logprobs], greedy, scored.truncated)


def _adapter(path: str | None) -> Any:
    if path is None:
        return None
    from vllm.lora.request import LoRARequest

    return LoRARequest("adapter", 1, path)


def _token_logprobs(tokens: Any, logprobs: Any) -> list[dict[str, Any]]:
    """Log probabilities of the answer's tokens, in the form of OpenAI's chat API."""
    return [
        {
            "token": candidates[token].decoded_token,
            "logprob": candidates[token].logprob,
            "top_logprobs": [{"token": top.decoded_token, "logprob": top.logprob} for top in candidates.values()],
        }
        for token, candidates in zip(tokens, logprobs, strict=True)
    ]
