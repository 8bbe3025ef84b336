"""The GPUs of this machine and the environment with vLLM for them; without them these tests skip, with the reason."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-gpu" / "bin" / "python"
MODEL = ROOT / "build" / "smollm2-135m"


@pytest.fixture(scope="session")
def gpus() -> list[str]:
    """Names of the NVIDIA GPUs."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU: there is no nvidia-smi here")
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    names = done.stdout.split("\n")[:-1] if done.returncode == 0 else []
    if not names:
        pytest.skip(f"needs an NVIDIA GPU: nvidia-smi found none ({(done.stdout + done.stderr).strip()[:200]})")
    return names


@pytest.fixture(scope="session")
def python(gpus: list[str]) -> Path:
    """The interpreter of the environment with vLLM for GPUs."""
    if not PYTHON.is_file():
        pytest.fail("there is a GPU, but not .venv-gpu: make test-gpu")
    return PYTHON


@pytest.fixture(scope="session")
def model(python: Path) -> Path:
    """SmolLM2-135M-Instruct."""
    if not (MODEL / "config.json").is_file():
        pytest.fail(f"there is a GPU, but not the model in {MODEL}: make test-gpu")
    return MODEL


@pytest.fixture(scope="session")
def even_model(python: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model whose heads can be divided between two GPUs: SmolLM2 has nine."""
    folder = tmp_path_factory.mktemp("even") / "llama"
    script = Path(__file__).with_name("tiny_llama.py")
    subprocess.run([str(python), str(script), str(model), str(folder)], check=True, timeout=300)
    return folder
