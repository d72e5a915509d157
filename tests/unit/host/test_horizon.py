"""How far the log is written: who watches is told, nobody else asks."""

from __future__ import annotations

import threading

from runtime.host.horizon import Horizon


def test_the_engine_is_asked_while_somebody_watches() -> None:
    asked: list[bool] = []
    horizon, lock = Horizon(asked.append), threading.Lock()
    horizon.watch("a", lock)
    horizon.watch("b", lock)
    horizon.leave("a", lock)
    horizon.leave("a", lock)
    assert asked == [True]
    horizon.ask_again()
    horizon.leave("b", lock)
    assert asked == [True, True, False]
    horizon.ask_again()
    horizon.close()
    horizon.watch("c", lock)
    assert asked == [True, True, False], "there is no engine any more"


def test_waiting_ends_with_news_with_the_end_with_a_stop_and_with_time() -> None:
    horizon = Horizon(lambda watched: None)
    assert not horizon.wait(0, 0.0)
    horizon.told(7)
    horizon.told(5)
    assert horizon.lsn == 7, "it never falls"
    assert horizon.wait(6, 0.0)
    assert not horizon.wait(7, 0.0)
    assert horizon.wait(7, None, lambda: True)
    threading.Thread(target=horizon.told, args=(8,)).start()
    assert horizon.wait(7, 60.0)
    threading.Thread(target=horizon.close).start()
    assert horizon.wait(8, 60.0)


def test_callbacks_hear_of_each_change() -> None:
    horizon, lock, heard = Horizon(lambda watched: None), threading.Lock(), []
    horizon.watch("a", lock, lambda: heard.append(horizon.lsn))
    horizon.told(1)
    horizon.told(2)
    horizon.leave("a", lock)
    horizon.told(3)
    assert heard == [1, 2]


def test_a_word_that_was_asked_for_is_counted_although_it_is_the_same() -> None:
    horizon = Horizon(lambda watched: horizon.told(4))
    words = horizon.refresh(threading.Lock())
    assert horizon.words == words + 1
