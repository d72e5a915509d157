"""How the parts of a checkpoint are packed: by Zstandard, and where they changed as the difference to what was there.

    content ──► four planes (numbers of four bytes) ──► zstd ──► body          a part by itself
    content, content before ──► zstd with what was before as its dictionary    a difference

Numbers of four bytes are put apart byte by byte, because the upper bytes of nodes and offsets hardly change from one to
the next. A difference is mere references where nothing changed: it costs what changed, wherever that is.

The codes are in files: they are only added to. `ZLIB` is of the first format, and read for ever.
Concurrency: none; a packer belongs to one thread.
"""

from __future__ import annotations

import zlib
from typing import Final

import zstandard

PLAIN: Final = 0
ZLIB: Final = 1
ZSTD: Final = 2
PLANES: Final = 3
PACK_BYTES_MIN: Final = 128
"""Less is not worth compressing."""
LEVEL: Final = 1
CONTENT_BYTES_MAX: Final = 1 << 30
"""What says that it is longer when it is unpacked is damaged."""
WINDOW_LOG_MIN: Final = 10
WINDOW_LOG_MAX: Final = 24
"""Of a difference: 16 MiB of content before and now are searched. A part is 8 MiB at most, but for one value."""
HASH_LOG_MAX: Final = 20
"""Of places that are remembered: as many as there are, up to a million, which take 4 MiB while it works."""
OF_FOUR_BYTES: Final = frozenset(
    {"waits", "deps_off", "deps", "after_off", "after", "succ_off", "succ", "kind_of"},
)
"""Columns of `actors.saved_run` that are numbers of four bytes. Of others and of small runs the code says how."""

_Broken = (zstandard.ZstdError, zlib.error, TypeError, ValueError, MemoryError)


class PackingBroken(Exception):
    """What should be unpacked is not what `Packer` made. Caught by who reads the file."""


class Packer:
    """Packs and unpacks. Keeps what Zstandard needs to work, which takes longer to make than to use."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)

    def pack(self, column: str, content: bytes) -> tuple[int, bytes]:
        """Code and body of a part."""
        if len(content) < PACK_BYTES_MIN:
            return PLAIN, content
        if column in OF_FOUR_BYTES and len(content) % 4 == 0:
            return PLANES, self._compressor.compress(planes(content))
        return ZSTD, self._compressor.compress(content)

    def unpack(self, code: int, body: bytes) -> bytes:
        """The content of a part. Raises PackingBroken."""
        try:
            if code == PLAIN:
                return body
            if code == ZLIB:
                return zlib.decompress(body)
            content = self._decompressed(self._decompressor, body)
        except _Broken as broken:
            raise PackingBroken(repr(broken)) from broken
        if code == ZSTD:
            return content
        if code == PLANES and len(content) % 4 == 0:
            return unplanes(content)
        raise PackingBroken(f"a part is packed in way {code!r}")

    def difference(self, before: bytes, content: bytes) -> bytes:
        """What leads from the content before to this one."""
        window_log = min(max((len(before) + len(content)).bit_length(), WINDOW_LOG_MIN), WINDOW_LOG_MAX)
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, window_log=window_log, hash_log=min(window_log, HASH_LOG_MAX)
        )
        compressor = zstandard.ZstdCompressor(dict_data=_dictionary(before), compression_params=parameters)
        return compressor.compress(content)

    def changed(self, before: bytes, difference: bytes) -> bytes:
        """The content that the difference leads to. Raises PackingBroken."""
        try:
            decompressor = zstandard.ZstdDecompressor(dict_data=_dictionary(before), max_window_size=1 << 27)
            return self._decompressed(decompressor, difference)
        except _Broken as broken:
            raise PackingBroken(repr(broken)) from broken

    @staticmethod
    def _decompressed(decompressor: zstandard.ZstdDecompressor, body: bytes) -> bytes:
        if not 0 <= zstandard.frame_content_size(body) <= CONTENT_BYTES_MAX:
            raise ValueError("its length makes no sense")
        return decompressor.decompress(body)


def planes(content: bytes) -> bytes:
    """The first bytes of all numbers, then the second ones, and so on."""
    return b"".join((content[0::4], content[1::4], content[2::4], content[3::4]))


def unplanes(content: bytes) -> bytes:
    """The numbers together again."""
    count, numbers = len(content) // 4, bytearray(len(content))
    for place in range(4):
        numbers[place::4] = content[place * count : (place + 1) * count]
    return bytes(numbers)


def _dictionary(content: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(content, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
