"""Hugging Face transformers: generation and log-likelihoods in batches by length, on a GPU or the CPU."""

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gage_eval.models.backends.worker.batching import Batcher
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
from gage_eval.models.backends.worker.serve import Fatal, WorkerRequest, WorkerResponse, answered, fitting
from gage_eval.models.backends.worker.token_ids import token_digest

Tensor: TypeAlias = Any

# Canonical names that generate() knows by the same name; all others but those handled here are passed on.
_SAMPLING = ("temperature", "top_p", "top_k", "min_p")
_DEFAULT_NEW_TOKENS = 1024


async def load(options: Mapping[str, Any]) -> "TransformersEngine":
    """Load the model. Errors are in the log."""
    import torch
    import transformers

    source = {"revision": options["revision"], "trust_remote_code": options["trust_remote_code"]}
    path = options["model"]
    device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    owner = transformers.AutoModelForImageTextToText if options["vision"] else transformers.AutoModelForCausalLM
    dtype = options["dtype"] if options["dtype"] == "auto" else getattr(torch, options["dtype"])
    model = owner.from_pretrained(path, dtype=dtype, **source, **options["arguments"])
    if options["lora"]:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, options["lora"])
    if not getattr(model, "hf_device_map", None):
        model = model.to(device)
    model.eval()
    processor = transformers.AutoProcessor.from_pretrained(path, **source) if options["vision"] else None
    text = transformers.AutoTokenizer.from_pretrained(path, **source) if processor is None else processor.tokenizer
    return TransformersEngine(model, text, processor, options)


@dataclass(frozen=True, slots=True)
class Job:
    """One forward pass or generation.

    Attributes:
        tokens: of the prompt, or of context and continuation.
        start: index of the continuation's first token; 0 where text is generated.
        params: of generate().
        stop: texts that end an answer.
        seed: of the sampling.
        text, images: the prompt before it is tokenised, where it has images.
        tells_tokens: the answer's tokens are wanted with their log-probabilities.
    """

    tokens: list[int] = field(default_factory=list)
    start: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    seed: int | None = None
    text: str = ""
    images: tuple[Any, ...] = ()
    tells_tokens: bool = False


class _Likeliest:
    """Notes at each step of a generation the log-probabilities of the chosen and of the two likeliest tokens.

    It is the last of the processors, which change the logits: what it sees is what is chosen from.
    """

    def __init__(self) -> None:
        self._last: Tensor = None
        self._steps: list[tuple[list[int], list[float], list[list[int]], list[list[float]]]] = []

    def __call__(self, tokens: Tensor, scores: Tensor) -> Tensor:
        if self._last is not None:
            self.chose(tokens[:, -1])
        self._last = scores.float().log_softmax(dim=-1)
        return scores

    def chose(self, tokens: Tensor) -> None:
        """Note the tokens that were chosen last, one for each row."""
        values, ids = self._last.topk(2, dim=-1)
        own = self._last.gather(1, tokens[:, None])[:, 0]
        self._steps.append((tokens.tolist(), own.tolist(), ids.tolist(), values.tolist()))

    def of_row(self, row: int, count: int, tokenizer: Any) -> dict[str, Any]:
        """The first tokens of a row, in the form of OpenAI's chat API."""
        return {
            "content": [
                {
                    "token": tokenizer.decode([chosen[row]]),
                    "logprob": own[row],
                    "top_logprobs": [
                        {"token": tokenizer.decode([token]), "logprob": value}
                        for token, value in zip(ids[row], values[row], strict=True)
                    ],
                }
                for chosen, own, ids, values in self._steps[:count]
            ]
        }


class TransformersEngine:
    """A model, its tokenizer, and what waits for them."""

    library = "transformers"

    def __init__(self, model: Any, tokenizer: Any, processor: Any, options: Mapping[str, Any]) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._processor = processor
        self._owner = processor if getattr(processor, "chat_template", None) else tokenizer
        config = getattr(model.config, "text_config", None) or model.config
        known = int(getattr(config, "max_position_embeddings", 0) or 2048)
        self._longest = min(options["max_model_len"] or known, known)
        self._scoring = Scoring(tokenizer, self._owner, options, self._longest)
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self._pad = int(pad if pad is not None else 0)
        # An adapter takes anything and hands it on.
        own = model.get_base_model() if hasattr(model, "get_base_model") else model
        self._takes = frozenset(inspect.signature(own.forward).parameters)
        self._batcher: Batcher[Job, Any] = Batcher(self._compute, options["batch_size"], _is_out_of_memory)

    async def answer(self, request: WorkerRequest) -> WorkerResponse:
        """The response to a request."""
        if request["kind"] == "likelihood":
            return await self._scoring.answer(request, self._score)
        job = self._job(request)
        alone = (object(),) if job.images or job.seed is not None else ()
        settings = (json.dumps(job.params, sort_keys=True, default=str), job.stop, job.tells_tokens, *alone)
        response: WorkerResponse = await self._batcher.run(job, settings, len(job.tokens))
        return response

    # --- what is asked

    def _job(self, request: WorkerRequest) -> Job:
        asked = dict(request["params"])
        tells_tokens = asked.pop("token_logprobs", None) is not None
        params, stop, seed, template = _generation(asked)
        text, images = "", list[Any]()
        if request["kind"] == "completion":
            tokens = self._tokenizer(request["prompt"])["input_ids"]
        else:
            if self._processor is not None:
                text, images = self._with_images(request, template)
            else:
                text = render(self._tokenizer, plain(request["messages"]), request.get("tools"), template)
            tokens = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = fitting(tokens, self._longest)
        wanted = int(params.get("max_new_tokens", _DEFAULT_NEW_TOKENS))
        params["max_new_tokens"] = min(self._longest - len(tokens), wanted)
        return Job(tokens, 0, params, stop, seed, text, tuple(images), tells_tokens)

    def _with_images(self, request: WorkerRequest, template: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The prompt of a model that sees, with as many image tokens as there are images, and the images."""
        messages, images = with_images(request["messages"])
        token = image_token(self._processor)
        return render_seen(self._owner, messages, len(images), token, request.get("tools"), template), images

    async def _score(self, scored: ForwardPass) -> dict[str, Any]:
        job = Job(scored.tokens, scored.start)
        logprobs, greedy = await self._batcher.run(job, "likelihood", len(scored.tokens))
        return entry(logprobs, greedy, scored.truncated)

    # --- what is computed, in the batcher's thread

    def _compute(self, jobs: Sequence[Job]) -> Sequence[Any]:
        import torch

        with torch.inference_mode():
            return self._score_batch(jobs) if jobs[0].start else self._generate_batch(jobs)

    def _score_batch(self, jobs: Sequence[Job]) -> list[tuple[list[float], bool]]:
        """Log probabilities of each continuation's tokens, and whether each was the most likely."""
        import torch

        # The prediction after the last token is not used.
        inputs = self._padded([job.tokens[:-1] for job in jobs])
        wide = max(len(job.tokens) - job.start for job in jobs)
        if "logits_to_keep" in self._takes:
            # Padded on the left, so the continuations end together: no other place needs the whole vocabulary.
            inputs["logits_to_keep"] = wide
        logits = self._model(**inputs, use_cache=False).logits[:, -wide:]
        out = []
        for row, job in enumerate(jobs):
            length = len(job.tokens) - job.start
            own = torch.log_softmax(logits[row, -length:].float(), dim=-1)
            targets = torch.tensor(job.tokens[job.start :], device=own.device)
            greedy = bool((own.argmax(dim=-1) == targets).all())
            out.append((own.gather(1, targets[:, None])[:, 0].tolist(), greedy))
        return out

    def _generate_batch(self, jobs: Sequence[Job]) -> list[WorkerResponse]:
        import torch

        first = jobs[0]
        if first.images:
            inputs = self._seen(first)
        else:
            inputs = self._padded([job.tokens for job in jobs])
            inputs.pop("position_ids", None)
        if first.seed is not None:
            torch.manual_seed(first.seed)
        stops = {"stop_strings": list(first.stop), "tokenizer": self._tokenizer} if first.stop else {}
        likeliest = _Likeliest() if first.tells_tokens else None
        if likeliest is not None:
            stops["logits_processor"] = [likeliest]
        try:
            made = self._model.generate(**inputs, **first.params, **stops, pad_token_id=self._pad)
        except (TypeError, ValueError) as error:
            raise Fatal(f"transformers refuses the parameters: {error}") from error
        prompt = inputs["input_ids"].shape[1]
        ends = _end_tokens(self._model.generation_config, self._tokenizer)
        rows = [made[row, prompt:].tolist() for row in range(len(jobs))]
        out = [self._answered(job, tokens, ends, prompt) for job, tokens in zip(jobs, rows, strict=True)]
        if likeliest is not None:
            likeliest.chose(made[:, -1])
            for row, response in enumerate(out):
                # The token that ends an answer is one of its tokens.
                response["logprobs"] = json.dumps(likeliest.of_row(row, response["completion_tokens"], self._tokenizer))
        return out

    def _answered(self, job: Job, tokens: list[int], ends: frozenset[int], width: int) -> WorkerResponse:
        stopped = next((index for index, token in enumerate(tokens) if token in ends), None)
        own = tokens if stopped is None else tokens[:stopped]
        text = self._tokenizer.decode(own, skip_special_tokens=True)
        at = min((index for stop in job.stop if (index := text.find(stop)) >= 0), default=None)
        finish = "stop" if stopped is not None or at is not None else "length"
        count = len(own) + (stopped is not None)
        response = answered(text if at is None else text[:at], finish, width if job.images else len(job.tokens), count)
        if not job.images:
            response["prompt_digest"] = token_digest(job.tokens)
        return response

    def _seen(self, job: Job) -> dict[str, Tensor]:
        """Model inputs of a prompt with images."""
        begin = self._tokenizer.bos_token
        # The token that a chat template began the text with is not put before it once more.
        special = {"add_special_tokens": False} if begin and job.text.startswith(begin) else {}
        inputs = self._processor(text=[job.text], images=[list(job.images)], return_tensors="pt", **special)
        device, dtype = self._model.device, self._model.dtype
        return {
            name: value.to(device, dtype) if value.is_floating_point() else value.to(device)
            for name, value in inputs.items()
        }

    def _padded(self, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
        """Model inputs of some token rows, padded on the left."""
        import torch

        width = max(len(row) for row in rows)
        tokens = torch.full((len(rows), width), self._pad)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for index, row in enumerate(rows):
            tokens[index, width - len(row) :] = torch.tensor(row)
            mask[index, width - len(row) :] = 1
        inputs = {"input_ids": tokens, "attention_mask": mask}
        if "position_ids" in self._takes:
            inputs["position_ids"] = (mask.cumsum(dim=-1) - 1).clamp(min=0)
        device = self._model.device
        return {name: value.to(device) for name, value in inputs.items()}


def _generation(
    params: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[str, ...], int | None, Mapping[str, Any]]:
    """generate()'s parameters, stop strings, seed and variables of the chat template."""
    own = {name: value for name, value in params.items() if value is not None and name not in TEMPLATE}
    template = template_variables(params)
    stop = own.pop("stop", None) or ()
    seed = own.pop("seed", None)
    if "max_tokens" in own:
        own.setdefault("max_new_tokens", own.pop("max_tokens"))
    if own.get("temperature") == 0:
        own = {name: value for name, value in own.items() if name not in _SAMPLING}
        # Sampling settings of the model's own config would cause warnings.
        own |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        seed = None
    elif any(name in own for name in _SAMPLING):
        own.setdefault("do_sample", True)
    return own, (stop,) if isinstance(stop, str) else tuple(stop), seed, template


def _end_tokens(generation: Any, tokenizer: Any) -> frozenset[int]:
    ends = generation.eos_token_id if generation.eos_token_id is not None else tokenizer.eos_token_id
    return frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])


def _is_out_of_memory(error: Exception) -> bool:
    return "out of memory" in str(error).lower() or isinstance(error, MemoryError)
