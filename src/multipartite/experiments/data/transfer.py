"""A downloader for pooch that goes on where it stopped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from urllib3.exceptions import HTTPError

__all__ = ["Resume"]

Report = Callable[[int, int | None], None]  # bytes so far, bytes in all where the server says


class Resume:
    """Download into a ``.part`` file that outlives a failure; the next attempt asks for the rest only.

    A connection that breaks is taken up again as long as each attempt brings something. Whether the pieces
    make the right file is for pooch to say, by the hash.

    Parameters
    ----------
    part : Path
        Where the bytes are gathered.
    report : callable
        Called with the bytes so far and in all, after every piece.
    attempts : int
        How often one address is asked at most.
    timeout : float
        Seconds without an answer after which a connection counts as broken.

    Examples
    --------
    >>> downloader = Resume(Path("mnist.gz.part"))  # then pooch.retrieve(..., downloader=downloader)
    >>> downloader.have
    0
    """

    def __init__(
        self,
        part: Path,
        report: Report = lambda done, total: None,
        *,
        attempts: int = 20,
        timeout: float = 30,
    ) -> None:
        self.part, self.report, self.attempts, self.timeout = part, report, attempts, timeout

    @property
    def have(self) -> int:
        """How many bytes are there already."""
        return self.part.stat().st_size if self.part.exists() else 0

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        """Bring `url` to `output_file`, as pooch asks of a downloader."""
        for attempt in range(1, self.attempts + 1):
            before = self.have
            try:
                self._continue(url)
                break
            except (requests.RequestException, HTTPError) as error:
                if self.have == before or attempt == self.attempts:
                    raise requests.ConnectionError(_reason(error)) from error
        os.replace(self.part, output_file)

    def _continue(self, url: str) -> None:
        have = self.have
        # No transfer encoding: a .gz must arrive as it is, and a range must count its bytes.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as response:
            if have and response.status_code == requests.codes.requested_range_not_satisfiable:
                if response.headers.get("Content-Range") == f"bytes */{have}":
                    return  # it was whole already
                self.part.unlink()  # longer than the file: not its beginning
                raise requests.ConnectionError("the server has fewer bytes than came before")
            response.raise_for_status()
            if response.status_code != requests.codes.partial_content:
                have = 0  # a server without ranges sends everything again
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                raise requests.ConnectionError(f"asked for the bytes from {have}, the server sent others")
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            with self.part.open("ab" if have else "wb") as file:
                for piece in response.raw.stream(1 << 16, decode_content=False):
                    file.write(piece)
                    have += len(piece)
                    self.report(have, total)
        if total is not None and have != total:
            raise requests.ConnectionError(f"the connection broke after {have} of {total} bytes")


def _reason(error: Exception) -> str:
    """Say in a few words what requests says in many."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError) and not isinstance(error.args[0], str):
        return "no connection"
    return str(error)
