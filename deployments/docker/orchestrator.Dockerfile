# The Prefect server, workers without GPUs, and the command `gage`.
#
#   docker build -f deployments/docker/orchestrator.Dockerfile --build-arg PYTHON_DIGEST=sha256:… -t gage-eval:0.1.0 .
#   docker run --rm gage-eval:0.1.0 gage doctor
#   docker run --env PREFECT_SERVER_API_AUTH_STRING=user:password … gage-eval:0.1.0

# The digest of the base image, which a build must name: a tag may become another image. This shows it:
#   docker buildx imagetools inspect python:3.11-slim-bookworm --format '{{.Manifest.Digest}}'
ARG PYTHON_DIGEST

FROM python:3.11-slim-bookworm@${PYTHON_DIGEST} AS wheel
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm@${PYTHON_DIGEST}
# Extras of the wheel; metrics and media are what the built-in suites use.
ARG EXTRAS=metrics,media,hf,kubernetes,docker

# bubblewrap contains the programs that models write; tini passes signals on and reaps the engines and runs that a worker starts.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install -y --no-install-recommends bubblewrap tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --uid 10001 --user-group --create-home gage \
  && mkdir --mode=750 /store /scratch \
  && chown gage:gage /store /scratch

COPY constraints/base.txt /opt/constraints.txt
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
  wheel="$(echo /wheels/gage_eval-*.whl)" \
  && python -m pip install --no-cache-dir --constraint /opt/constraints.txt "gage-eval[${EXTRAS}] @ file://${wheel}"

ENV GAGE_EVAL_STORE=/store \
  HF_HOME=/scratch/huggingface \
  XDG_CACHE_HOME=/scratch/cache \
  PREFECT_SERVER_EPHEMERAL_ENABLED=false \
  PREFECT_SERVER_ANALYTICS_ENABLED=false \
  PREFECT_LOGGING_EXTRA_LOGGERS=gage_eval \
  PREFECT_WORKER_WEBSERVER_HOST=127.0.0.1 \
  DO_NOT_TRACK=1 \
  PYTHONUNBUFFERED=1

# A number, so that Kubernetes can tell that it is not root.
USER 10001:10001
WORKDIR /home/gage
ENTRYPOINT ["tini", "--"]
# Whether the server answers, or the worker still looks for runs. Runs and other commands have no such check.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
  CMD ["sh", "-c", "case \"$(tr '\\0' ' ' < /proc/1/cmdline)\" in *'server start'*) url=http://127.0.0.1:4200/api/health;; *--with-healthcheck*) url=http://127.0.0.1:8080/health;; *) exit 0;; esac; exec python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' \"$url\""]
# Whoever reaches a server without a login can run code on its workers.
CMD ["sh", "-c", ": \"${PREFECT_SERVER_API_AUTH_STRING:?set it to user:password, the login of the server}\" && exec prefect server start --host 0.0.0.0"]
