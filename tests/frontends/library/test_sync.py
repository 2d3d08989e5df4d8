"""The synchronous library has the methods, signatures and docstrings of the asynchronous one."""

from __future__ import annotations

import inspect

import pytest

import perdure


@pytest.mark.parametrize("name", ["Memory", "MemoryStore", "MemoryTool", "TeamMemory"])
def test_a_synchronous_class_has_the_methods_of_the_asynchronous_one(name: str) -> None:
    sync, asynchronous = getattr(perdure, name), getattr(perdure, f"Async{name}")
    public = {each for each in dir(asynchronous) if not each.startswith("_")}
    assert {each for each in dir(sync) if not each.startswith("_")} == public
    for each in public:
        if inspect.isfunction(getattr(sync, each)):
            ours = inspect.signature(getattr(sync, each)).parameters.values()
            theirs = inspect.signature(getattr(asynchronous, each)).parameters.values()
            assert [(one.name, one.kind, one.default) for one in ours] == [
                (one.name, one.kind, one.default) for one in theirs
            ]
            assert not inspect.iscoroutinefunction(getattr(sync, each))
            assert inspect.getdoc(getattr(sync, each))
            assert getattr(sync, each).__name__ == each


def test_a_synchronous_method_runs_what_a_subclass_of_the_asynchronous_class_overrides() -> None:
    class Quiet(perdure.AsyncMemory):
        async def get(self, id: str) -> None:
            return None

    with perdure.Memory._over(Quiet()) as memory:
        assert memory.get("no id at all") is None


def test_an_error_of_a_call_names_the_class_that_was_called() -> None:
    with perdure.Memory._over(perdure.AsyncMemory()) as memory:
        with pytest.raises(TypeError, match=r"^Memory\.add\(\) got an unexpected keyword argument 'user'"):
            memory.add("I live in Leeds.", user="ana")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"^Memory\.within\(\) got an unexpected"):
            memory.within(user="ana")  # type: ignore[call-arg]
    with pytest.raises(perdure.ConfigError, match=r"a MemoryStore stands on a Memory, not on the class Memory$"):
        perdure.MemoryStore(perdure.Memory)  # type: ignore[arg-type]
