"""From a resolved config to the specs of standardize and preprocess."""

from dataclasses import dataclass
from pathlib import Path

from gage_eval.base.files import folder_of, local_path
from gage_eval.config.data_origins import load_origin
from gage_eval.config.models import DatasetConfig, DatasetParams, origin_patterns
from gage_eval.config.resolve import ResolvedTask
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.datasets.origins import OriginPath, origin_paths
from gage_eval.data.prepare.documents import DocumentRules
from gage_eval.data.prepare.few_shot import FewShotRules
from gage_eval.data.prepare.images import ImageRules
from gage_eval.data.prepare.media import MediaRules
from gage_eval.data.prepare.recordings import RecordingRules
from gage_eval.data.prepare.videos import VideoRules
from gage_eval.data.standardize.callables import MediaCallable, TextCallable
from gage_eval.pipeline.specs import PreprocessSpec, StandardizeSpec
from gage_eval.pipeline.subsets import Subset

# Of a video with `video_fps` and no `video_frames`: as many as Qwen2.5-VL takes.
_MOST_FRAMES = 768


@dataclass(frozen=True)
class DataSource:
    """A dataset and where its files are.

    Attributes:
        dataset: its paths start from ``base_dir``.
        base_dir: the config's folder, or the root of the pinned origin in the data cache.
        origin_files: the files of that origin that it needs.
    """

    dataset: DatasetConfig
    base_dir: Path
    origin_files: tuple[OriginPath, ...] = ()


def data_source(dataset: DatasetConfig, base_dir: Path, data: DataCache) -> DataSource:
    """The places of a dataset's files. Nothing is fetched.

    Raises:
        InputError: its origin has no such files.
    """
    params = dataset.params
    if params.origin is None:
        copy = None if dataset.hub is None else data.hub_copy(dataset.hub)
        return DataSource(dataset if copy is None else dataset.model_copy(update={"hub": str(copy)}), base_dir)
    origin = load_origin(params.origin, base_dir)
    needed = {key: origin_paths(origin, patterns) for key, patterns in origin_patterns(params).items()}
    # Patterns mean the files of the origin, whatever else lies in the cache.
    paths = [file.path for file in needed.get("path", ())]
    named = params.model_copy(update={"path": paths[0] if len(paths) == 1 else paths})
    files = tuple(dict.fromkeys(file for several in needed.values() for file in several))
    return DataSource(dataset.model_copy(update={"params": named}), data.root(origin), files)


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


def preprocess_spec(
    task: ResolvedTask,
    source: DataSource,
    examples: DataSource | None,
    sample_ids: tuple[str, ...],
    subset: Subset | None,
) -> PreprocessSpec:
    """How the samples of a task become prepared rows.

    Raises:
        InputError: the bounds of image sizes contradict each other.
    """
    config, dataset = task.task, source.dataset
    return PreprocessSpec(
        task_id=config.task_id,
        params=config.sampling_params,
        replicates=config.replicates,
        sample_ids=sample_ids,
        subset=subset,
        dataset_id=dataset.dataset_id,
        max_reject_share=dataset.params.max_reject_share,
        on_reject=dataset.params.on_reject,
        kind=config.mode,
        choices=config.choices,
        target_delimiter=config.target_delimiter,
        few_shot=_few_shot(task),
        media=_media(source),
        pool_media=MediaRules() if examples is None else _media(examples),
        # A prompt decides how options are shown. A likelihood compares them and needs no list.
        lists_options=task.dut.prompt is None and config.mode in ("chat", "completion"),
    )


def _few_shot(task: ResolvedTask) -> FewShotRules | None:
    rules, examples = task.task.few_shot, task.examples
    if rules is None:
        return None if task.task.mode == "chat" else FewShotRules(form="text")
    return FewShotRules(
        k=rules.k,
        pool=rules.dataset_id,
        own_dataset=examples is not None and _source(examples) == _source(task.dataset),
        match=rules.match,
        strategy=rules.strategy,
        seed=rules.seed,
        ids=tuple(rules.ids),
        form=rules.form or ("chat" if task.task.mode in ("chat", "chat_likelihood") else "text"),
        delimiter=rules.delimiter,
    )


def _source(dataset: DatasetConfig) -> tuple[object, ...]:
    """Identifies a dataset's source: equal for two datasets that read the same records."""
    params = dataset.params
    return dataset.loader, dataset.hub, dataset.hub_params, params.path, params.origin, params.model_extra


def _media(source: DataSource) -> MediaRules:
    params = source.dataset.params
    return MediaRules(
        root=_content_root(source.dataset, source.base_dir),
        allow_outside=params.allow_outside,
        embed=params.embed_local_media,
        images=ImageRules(params.image_min_pixels, params.image_max_pixels, params.image_factor),
        documents=None if params.pdf is None else DocumentRules(params.pdf, params.pdf_dpi, params.pdf_max_pages),
        recordings=(None if params.audio_rate is None else RecordingRules(params.audio_rate, params.audio_max_seconds)),
        videos=_videos(params),
        private_hosts=tuple(params.private_media_hosts),
    )


def _videos(params: DatasetParams) -> VideoRules | None:
    if params.video_frames is None and params.video_fps is None:
        return None
    frames = params.video_frames or _MOST_FRAMES
    return VideoRules(frames, params.video_fps, params.video_max_seconds, params.video_times, params.video_form)


def _content_root(dataset: DatasetConfig, base_dir: Path) -> Path | None:
    """The folder of relative media: as given, else that of the data file; None for data that is not in a local file."""
    params = dataset.params
    if params.content_root is not None:
        return local_path(params.content_root, base_dir)
    paths = params.path if isinstance(params.path, list) else [params.path]
    folders = [None if path is None or "://" in path else folder_of(local_path(path, base_dir)) for path in paths]
    # Files in several folders have no common one: the config must name the folder of their media.
    return folders[0] if len(set(folders)) == 1 else None
