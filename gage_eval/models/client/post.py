"""One POST of JSON, without an event loop: for threads that deliver what no run waits for."""

from collections.abc import Mapping


class PostFailed(Exception):
    """Nothing was delivered. The message says why, without a full stop.

    Attributes:
        timed_out: the server took too long.
    """

    def __init__(self, why: str, *, timed_out: bool = False) -> None:
        super().__init__(why)
        self.timed_out = timed_out


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> None:
    """Send a JSON body. Any answer with a status of 2xx counts as delivered; what it says is not read.

    Args:
        url: http or https; redirects are not followed.
        body: JSON text.
        headers: sent besides the usual ones.
        timeout_s: longest time to connect, and longest silence of the server.

    Raises:
        PostFailed: no connection, no answer in time, no HTTP, or a status other than 2xx.
    """
    import requests

    sent = {"Content-Type": "application/json", "User-Agent": "gage-eval", **headers}
    try:
        with requests.post(
            url, data=body, headers=sent, timeout=timeout_s, allow_redirects=False, stream=True
        ) as reply:
            status = reply.status_code
    except requests.Timeout:
        raise PostFailed(f"no answer within {timeout_s:g} s", timed_out=True) from None
    except (requests.RequestException, OSError, ValueError) as error:
        # Its text repeats the URL, which may hold a secret.
        raise PostFailed(f"no connection, or no HTTP answer ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise PostFailed(f"status {status}")
