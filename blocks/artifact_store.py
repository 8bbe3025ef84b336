"""The block of an artifact store."""

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from blocks.described import DOCUMENTATION


class ArtifactStore(Block):
    """A store of results: a folder that all workers see, or a bucket on S3 with the keys to it.

    Name it where a run asks for a store, as ``block:NAME``.

    Example:
        Run with a store by its name:
        ```
        gage run mine.yaml --store block:team
        ```
    """

    _block_type_name = "Artifact Store"
    _block_type_slug = "artifact-store"
    _documentation_url = DOCUMENTATION  # type: ignore[assignment]

    url: str = Field("", title="URL", description="A folder, file:///folder, or s3://bucket/prefix.")
    endpoint_url: str = Field("", title="S3 endpoint", description="URL of the S3 server; Amazon's by default.")
    region: str = Field("", title="Region", description="Region of the bucket.")
    access_key_id: str = Field("", title="Access key id", description="The worker's own AWS settings by default.")
    secret_access_key: SecretStr = Field(
        SecretStr(""), title="Secret access key", description="The key that belongs to the access key id."
    )

    def environment(self) -> dict[str, str]:
        """The variables that give an S3 client what the block holds."""
        values = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key.get_secret_value(),
        }
        return {name: value for name, value in values.items() if value}
