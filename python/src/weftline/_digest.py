"""What a class does, as a digest: results of two versions of it are not to be taken for one's.

The digest is of code, not of source, which may have changed since it was imported: of the class, its bases
and attributes, and of what its functions reach, defaults, closures and globals, in functions and classes
among these as well. What comes with Python, with this package or with another that is installed counts by
its name.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import functools
import hashlib
import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator

# A class that reaches more than so many things is one that cannot be digested.
_MOST = 20_000

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))

# What Python makes of a class itself, and what says nothing of what it does.
_DERIVED = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__",
    "__dataclass_fields__", "__dataclass_params__", "__dict__", "__doc__", "__firstlineno__",
    "__match_args__", "__module__", "__orig_bases__", "__parameters__", "__qualname__",
    "__static_attributes__", "__type_params__", "__weakref__", "_abc_impl",
}

# Parts of classes that are not written in Python.
_DESCRIPTORS = (
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
)

# Of a type's flags: that it was made while the program runs, as `class` does (CPython, `Py_TPFLAGS_HEAPTYPE`).
_MADE = 1 << 9


def digest(thing: object, module: str) -> tuple[str, bool]:
    """The digest of `thing`, which is of `module`, and whether all of it could be digested."""
    digester = _Digester(module.partition(".")[0])
    return digester.of(thing).hex()[:8], digester.is_whole


def _hash(*parts: str | bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        said = part.encode() if isinstance(part, str) else part
        whole.update(len(said).to_bytes(8, "little") + said)
    return whole.digest()


class _Digester:
    """Digests of things that may lead back to themselves."""

    def __init__(self, package: str) -> None:
        self.is_whole = True
        # The user's, even if it is installed.
        self._package = package
        self._left = _MOST
        self._open: set[int] = set()
        # With the things, so that no other takes the place of one.
        self._known: dict[int, tuple[object, bytes]] = {}

    def of(self, thing: object) -> bytes:
        """The digest of anything; of what has none, the same for all of its type."""
        if type(thing) in _PLAIN:
            return _hash(type(thing).__name__, f"{thing:x}" if isinstance(thing, int) else repr(thing))
        known = self._known.get(id(thing))
        if known is not None:
            return known[1]
        if id(thing) in self._open:
            return _hash("again")
        self._left -= 1
        self._open.add(id(thing))
        try:
            if self._left < 0:
                raise OverflowError
            said = self._look_at(thing)
        except Exception:  # Whatever an object of somebody's says when it is asked for its state.
            self.is_whole = False
            said = _hash("unknown", type(thing).__qualname__)
        finally:
            self._open.discard(id(thing))
        self._known[id(thing)] = thing, said
        return said

    def _all(self, what: str, things: Iterable[object]) -> bytes:
        return _hash(what, *map(self.of, things))

    def _alone(self, member: object) -> bytes:
        """A member of a set: which comes first is by chance, and must not matter to the others."""
        known = self._known.copy()
        try:
            return self.of(member)
        finally:
            self._known = known

    def _look_at(self, thing: object) -> bytes:
        if isinstance(thing, (tuple, list)) and type(thing) in (tuple, list):
            return self._all(type(thing).__name__, thing)
        if isinstance(thing, (set, frozenset)):
            return _hash(type(thing).__name__, *sorted(map(self._alone, thing)))
        if type(thing) in (dict, types.MappingProxyType):
            pairs = thing.items()  # type: ignore[attr-defined]
            return self._all("dict", (part for pair in pairs for part in pair))
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, types.FunctionType):
            return self._function(thing)
        if isinstance(thing, types.CodeType):
            return self._code(thing)
        if isinstance(thing, types.ModuleType):
            return _hash("module", thing.__name__)
        if isinstance(thing, types.MethodType):
            return self._all("method", (thing.__self__, thing.__func__))
        if isinstance(thing, types.BuiltinFunctionType):
            of = thing.__self__
            owner = _hash() if of is None or isinstance(of, types.ModuleType) else self.of(of)
            return _hash("built in", thing.__module__ or "", thing.__qualname__, owner)
        if isinstance(thing, _DESCRIPTORS):
            return _hash("descriptor", thing.__qualname__)
        if isinstance(thing, property):
            return self._all("property", (thing.fget, thing.fset, thing.fdel))
        if isinstance(thing, (staticmethod, classmethod)):
            return self._all(type(thing).__name__, (thing.__func__,))
        if isinstance(thing, functools.cached_property):
            return self._all("cached", (thing.func, thing.attrname))
        if isinstance(thing, functools.partial):
            return self._all("partial", (thing.func, thing.args, *sorted(thing.keywords.items())))
        return self._instance(thing)

    def _instance(self, thing: object) -> bytes:
        """An object by what it takes to make it anew, as `pickle` and `copy` ask for it."""
        own = copyreg.dispatch_table.get(type(thing))
        reduced = thing.__reduce_ex__(4) if own is None else own(thing)
        if isinstance(reduced, str):
            # Whoever wants it looks for that name; a cache has the function behind it.
            of = type(thing)
            if not hasattr(thing, "__wrapped__") and not self._is_own(of.__module__):
                return _hash("named", of.__module__, reduced)
            return self._all("wrapped", (of, thing.__wrapped__))  # type: ignore[attr-defined]
        make, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        parts = [make, arguments, state, *(items or ()), *(part for pair in pairs or () for part in pair)]
        return self._all("instance", parts)

    def _class(self, one: type) -> bytes:
        is_made = one.__flags__ & _MADE
        # What `exec` makes without a module's name is called a built-in's.
        if not is_made or (one.__module__ != "builtins" and not self._is_own(one.__module__)):
            return _hash("class", one.__module__, one.__qualname__)
        members = ((name, part) for name, part in sorted(vars(one).items()) if name not in _DERIVED)
        return self._all("class", (type(one), *one.__bases__, *members))

    def _function(self, function: types.FunctionType) -> bytes:
        # Where it was written: decorators give it the name of another one's module.
        module = function.__globals__.get("__name__")
        if module is not None and not self._is_own(module):
            return _hash("function", module, function.__qualname__)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        parts = (
            function.__code__, function.__defaults__, function.__kwdefaults__, *cells, *sorted(vars(function).items())
        )
        return _hash(self._all("function", parts), *self._reached(function))

    def _code(self, code: types.CodeType) -> bytes:
        """What it does, without where it stands."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return self._all("code", (code.co_code, code.co_exceptiontable, *counts, *names, code.co_consts))

    def _reached(self, function: types.FunctionType) -> Iterator[bytes]:
        """What a function finds by name when it runs."""
        there, names = function.__globals__, _names(function.__code__)
        for name in sorted(_arguments(function.__code__, "GLOBAL", "LOAD_NAME")):
            if name in there:
                yield _hash(name, self._found(there[name], names))
            elif not hasattr(builtins, name):
                yield _hash(name, "missing")
        for name in sorted(_arguments(function.__code__, "IMPORT_NAME")):
            near = f"{there.get('__package__')}.{name}"
            module = sys.modules.get(name) or sys.modules.get(near)
            if not self._is_own(name if module is None else module.__name__):
                # Whether it is there by now says nothing.
                yield _hash(name, _hash("module", name))
            elif module is not None:
                yield _hash(name, self._found(module, names))
            else:
                # It is not there yet, and nobody knows what it will be.
                self.is_whole = False

    def _found(self, thing: object, names: frozenset[str]) -> bytes:
        """Something that a function uses; of a module of the user's, what has one of `names`."""
        if not isinstance(thing, types.ModuleType) or not self._is_own(thing.__name__):
            return self.of(thing)
        if id(thing) in self._open:
            return _hash("again")
        self._open.add(id(thing))
        parts = [_hash(name, self._found(part, names)) for name, part in sorted(vars(thing).items(), key=_first)
                 if name in names]
        self._open.discard(id(thing))
        return _hash("module", thing.__name__, *parts)

    def _is_own(self, module: str | None) -> bool:
        """Whether a module is the user's."""
        top = (module or "").partition(".")[0]
        if top in ("weftline", "builtins") or top in sys.stdlib_module_names:
            return False
        return top == self._package or not _is_installed(top)


def _first(pair: tuple[str, object]) -> str:
    return pair[0]


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # Not set yet.
        return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> frozenset[str]:
    return frozenset(name for one in _codes(code) for name in one.co_names)


def _arguments(code: types.CodeType, *kinds: str) -> set[str]:
    """The names that instructions of these kinds have."""
    instructions = (instruction for one in _codes(code) for instruction in dis.get_instructions(one))
    return {one.argval for one in instructions if any(kind in one.opname for kind in kinds) and one.argval}


@functools.cache
def _is_installed(top: str) -> bool:
    """Whether a package is neither the user's nor part of Python."""
    try:
        there = sys.modules.get(top)
        spec = importlib.util.find_spec(top) if there is None else there.__spec__
    except (ImportError, ValueError, AttributeError):
        return False
    origin = spec.origin if spec is not None else None
    return bool({"site-packages", "dist-packages"} & set(pathlib.Path(origin or "").parts))
