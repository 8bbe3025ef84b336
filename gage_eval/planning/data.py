"""From a resolved config to the specs of standardize and preprocess."""

import glob
from pathlib import Path

from gage_eval.config.models import DatasetConfig
from gage_eval.config.resolve import ResolvedTask
from gage_eval.files import local_path
from gage_eval.planning.specs import PreprocessSpec, StandardizeSpec
from gage_eval.prepare.few_shot import FewShotRules
from gage_eval.prepare.images import ImageRules
from gage_eval.prepare.media import MediaRules
from gage_eval.standardize.callables import MediaCallable, TextCallable


def standardize_spec(task_id: str, dataset: DatasetConfig) -> StandardizeSpec:
    """How the records of a dataset become samples."""
    params = dataset.params
    callables = [
        MediaCallable(path, kind, kwargs, params.preprocess_kwargs)
        for path, kind, kwargs in (
            (params.doc_to_visual, "image_url", params.doc_to_visual_kwargs),
            (params.doc_to_audio, "audio_url", params.doc_to_audio_kwargs),
        )
        if path is not None
    ]
    text = None
    if params.doc_to_text is not None:
        text = TextCallable(params.doc_to_text, params.doc_to_text_kwargs, params.preprocess_kwargs)
    return StandardizeSpec(
        task_id,
        dataset.dataset_id,
        params.preprocess,
        params.preprocess_kwargs,
        params.max_reject_share,
        params.on_reject,
        tuple(callables),
        text,
    )


def preprocess_spec(task: ResolvedTask, base_dir: Path, sample_ids: tuple[str, ...]) -> PreprocessSpec:
    """What the requests of a task carry.

    Raises:
        InputError: the bounds of image sizes contradict each other.
    """
    given, dataset = task.task, task.dataset
    return PreprocessSpec(
        task_id=given.task_id,
        params=given.sampling_params,
        replicates=given.replicates,
        sample_ids=sample_ids,
        dataset_id=dataset.dataset_id,
        max_reject_share=dataset.params.max_reject_share,
        on_reject=dataset.params.on_reject,
        kind=given.mode,
        choices=given.choices,
        target_delimiter=given.target_delimiter,
        few_shot=_few_shot(task),
        media=_media(dataset, base_dir),
        pool_media=MediaRules() if task.examples is None else _media(task.examples, base_dir),
        # A prompt of the config says itself how options are shown; a likelihood compares them.
        lists_options=task.dut.prompt is None and given.mode in ("chat", "completion"),
    )


def _few_shot(task: ResolvedTask) -> FewShotRules | None:
    given, examples = task.task.few_shot, task.examples
    if given is None:
        return None if task.task.mode == "chat" else FewShotRules(form="text")
    return FewShotRules(
        k=given.k,
        pool=given.dataset_id,
        own_dataset=examples is not None and _source(examples) == _source(task.dataset),
        match=given.match,
        strategy=given.strategy,
        seed=given.seed,
        ids=tuple(given.ids),
        form=given.form or ("chat" if task.task.mode in ("chat", "chat_likelihood") else "text"),
        delimiter=given.delimiter,
    )


def _source(dataset: DatasetConfig) -> tuple[object, ...]:
    """Where a dataset's records come from: equal for two views of one source, whatever becomes of its records."""
    params = dataset.params
    return dataset.loader, dataset.hub, dataset.hub_params, params.path, params.model_extra


def _media(dataset: DatasetConfig, base_dir: Path) -> MediaRules:
    params = dataset.params
    return MediaRules(
        root=_content_root(dataset, base_dir),
        allow_outside=params.allow_outside,
        embed=params.embed_local_media,
        images=ImageRules(params.image_min_pixels, params.image_max_pixels, params.image_factor),
    )


def _content_root(dataset: DatasetConfig, base_dir: Path) -> Path | None:
    """The folder of relative media: as given, else that of the data file; None for data from elsewhere."""
    params = dataset.params
    if params.content_root is not None:
        return local_path(params.content_root, base_dir)
    paths = params.path if isinstance(params.path, list) else [params.path]
    folders = [None if path is None or "://" in path else _folder_of(local_path(path, base_dir)) for path in paths]
    # Files in several folders have none of their own: the config says where their media are.
    return folders[0] if len(set(folders)) == 1 else None


def _folder_of(path: Path) -> Path:
    """The folder of a file; of a pattern that which all its files lie below."""
    while glob.has_magic(str(path.parent)):
        path = path.parent
    return path.parent
