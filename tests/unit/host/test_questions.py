"""What cannot be said is refused before it is sent."""

from __future__ import annotations

import pytest

from actors.protocol.errors import CallerError
from runtime.host.questions import encode_question


def test_a_question_is_text_of_a_bounded_length() -> None:
    assert encode_question("why", {"run": "é"}, 12) == '{"run":"é"}'.encode()
    with pytest.raises(CallerError, match="why: 12 bytes are too long; a question has 11 at most"):
        encode_question("why", {"run": "é"}, 11)
    with pytest.raises(CallerError, match=r"why: this cannot be asked: .*surrogates"):
        encode_question("why", {"run": "\udcff"}, 100)
