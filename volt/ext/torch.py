"""Steps of a stream as a dataset of PyTorch: the same sequence for any number of workers, resumable
at any step.

    dataset = StreamDataset("stream.yaml")                                  # a YAML file with sources and batches
    for batch in DataLoader(dataset, batch_size=None, num_workers=1): ...   # a dict of tensors for each step

    no workers           the fastest: resume with `state_dict()` and `load_state_dict(state)`
    StatefulDataLoader   collects the workers' states; any loader resumes from `StreamDataset.state_of(state)`
    DataLoader           reads ahead with workers: with tell=True, `batch["state"]` is the state after that batch. For
                         several iterations, set persistent_workers=True.

Set batch_size=None. With workers, in_order must be True; if a transform runs Python code, n_workers
must be 0.

A DataLoader draws a number from torch's global random generator when an iteration starts. A trainer
that restores the generator from a checkpoint needs DataLoader(…, generator=torch.Generator()), or
dropout differs after a resume. The dataset itself uses no global random generator.

A dataset stores a position (`Position`), and opens `Steps` there when a process reads it. With
workers, each worker has a copy of the dataset. Copies share only `WorkerNotes`, by which the main
process learns that workers read.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn
from weakref import ReferenceType, WeakKeyDictionary, ref

from volt import arguments
from volt.batches.collation import to_torch
from volt.batches.steps import Steps
from volt.display import counted
from volt.errors import ConfigError, StreamError, VoltError, missing, quoted
from volt.ext.loader_state import Position, WorkerNotes, iteration_id, position_of_loader
from volt.files.threads import can_wait
from volt.stream.reading.ranks import check_rank, from_environment
from volt.stream.running.stream import Stream

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
    from torch.utils.data._utils.collate import default_collate_fn_map
except ImportError:
    raise missing("torch", extra="torch") from None


_RELOAD = "resume with dataset.load_state_dict(state)"
_STATE_OF = "for a state from a loader, with dataset.load_state_dict(StreamDataset.state_of(state))"
_STALE = "the dataset has been iterated again, or has loaded a state; make a new iterator"
_TRAINER = (
    "transformers.Trainer collates steps, which are batches already; override its get_train_dataloader to return "
    "DataLoader(dataset, batch_size=None), and rename the arrays for the model, as examples/hf_trainer.py does"
)
_NOT_OPTIONS = {"self", "path", "options", "sources", "rank", "world", "files"}


class Step(dict[str, Any]):
    """The tensors of a step; a loader must not collate them."""


# The dataset that reads each Steps
_READERS = WeakKeyDictionary[Steps, ReferenceType[Any]]()


class StreamDataset(IterableDataset[dict[str, Any]]):
    """The steps of one rank, as dicts of tensors.

    Each iteration continues where the previous one ended.

    config: the path of a YAML file with a section `batches:`, or a function that takes rank, world
        and `options`, and returns `Steps`; spawned workers need a function at the top level of a
        module
    rank, world: this rank, and the number of ranks; by default from torch.distributed, or from the
        environment
    epoch: the number of steps in an iteration; None for all steps
    repeat: whether each iteration starts with the first step
    tell: whether each batch contains `state`, a string with the stream's state after the batch
    options: options of `Steps.from_config`, or of the function `config`
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Callable[..., Steps],
        *,
        rank: int | None = None,
        world: int | None = None,
        epoch: int | None = None,
        repeat: bool = False,
        tell: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if not callable(config):
            remedy = "give the path of a YAML file, or a function that returns Steps"
            config = arguments.path(config, "config", remedy=remedy)
        self.config = config
        if (rank is None) != (world is None):
            raise ConfigError(f"rank={rank}, world={world}; give both, or neither")
        self._is_detected = rank is None or world is None
        if rank is None or world is None:
            self.rank, self.world = _detect_rank()
        else:
            self.rank, self.world = check_rank(rank, world)
        if epoch is not None:
            epoch = arguments.whole(epoch, "epoch", low=1)
        self.epoch = epoch
        self.repeat = arguments.flag(repeat, "repeat")
        self.tell = arguments.flag(tell, "tell")
        self.options = _check_options(config, options)
        self._notes = WorkerNotes()
        self._position = Position(world=self.world)  # of the next iteration, or of the current one
        self._is_loaded = False  # whether a state was loaded since the last iteration
        self._iteration = 0  # the number of the current iteration; older iterators are stale
        self._reset_process()

    def _reset_process(self) -> None:
        """Reset everything that belongs to one process."""
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._steps: Steps | None = None
        self._first_state: Mapping[str, Any] = {}  # of the steps
        self._is_at_position = False  # whether the steps are at the position
        self._reading = 0  # the iteration that reads the steps; 0 for none
        self._n_to_skip = 0  # steps before its next step
        self._has_begun = False  # the last iteration of this process
        self._is_over = False  # the last iteration of this process

    def __repr__(self) -> str:
        name = getattr(self.config, "__qualname__", None) or str(self.config)
        if self.world > 1:
            name += f", rank {self.rank} of {self.world}"
        return f"<StreamDataset: {name}>"

    # an iteration

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return the steps of an iteration.

        Raises StreamError if the step to start with is unknown.
        """
        # The loader's frame, because Trainer removes all arrays of a step before it collates them,
        # so that nothing after this call could report the mistake
        collate = sys._getframe(1).f_locals.get("collate_fn")
        try:
            if str(getattr(collate, "__module__", "")).startswith("transformers."):
                raise ConfigError(_TRAINER)
            self._enter_process()
            with self._lock:
                self._stop_reading()
                start = self._start_position()
                self._is_at_position &= start.steps is self._position.steps
                self._position = start
                self._is_loaded = False
                self._has_begun = False
                self._is_over = False
                self._iteration += 1
        except VoltError as error:
            if get_worker_info() is None:
                raise
            return _raise_later(
                error
            )  # a loader passes an error of the first step on to its process
        return self._read(self._iteration)

    def _enter_process(self) -> None:
        """Reset the dataset if another process opened the steps.

        Raises ConfigError if the rank has changed.
        """
        if self._is_detected and _is_distributed():
            rank, world = _detect_rank()
            if (rank, world) != (self.rank, self.world):
                raise ConfigError(
                    f"rank {self.rank} of {self.world} when the dataset was made, but now rank {rank} of {world}; "
                    "make it after torch.distributed is initialised, or give rank and world"
                )
        if self._process == os.getpid():
            return
        if self._reading:
            raise StreamError(
                "the process that started this worker is reading the dataset; end that iteration first"
            )
        # A fork lacks the steps' threads, and their locks may be held: never touch them.
        self._inherited = self._steps
        self._reset_process()

    def _start_position(self) -> Position:
        """Return the position at which a new iteration starts.

        Raises StreamError if it is unknown.
        """
        iteration = iteration_id(get_worker_info())  # 0 outside of workers
        read_elsewhere = self._notes.read_by not in (0, iteration)  # by earlier workers
        position = self._find_position(iteration, read_elsewhere)
        if iteration and not read_elsewhere:
            self._notes.read_by = iteration
        return position.for_reader(_worker(), world=self.world, length=self.epoch)

    def _find_position(self, iteration: int, read_elsewhere: bool) -> Position:
        position = replace(self._position, worker=None) if self._is_over else self._position
        if self.repeat:
            is_loaded = self._is_loaded and not read_elsewhere
            return position if is_loaded else Position(world=self.world)
        if read_elsewhere and self._notes.ended:
            return replace(position, ended=True)
        if iteration and read_elsewhere:
            after_loaded = self._notes.position_after(iteration)
            if after_loaded is not None:
                self._notes.continued_by = iteration
                self._is_at_position = False
                return after_loaded
        if iteration and self._has_begun and not self._is_over:
            raise StreamError(
                "an iteration was stopped early, after its workers had read ahead; "
                f"set epoch=… to end iterations after a number of steps, or {_RELOAD}"
            )
        if read_elsewhere:
            raise StreamError(
                "the workers that read this dataset have ended; set persistent_workers=True, or repeat=True to "
                f"start again each time, or {_RELOAD}; {_STATE_OF}"
            )
        return position

    def _read(self, iteration: int) -> Iterator[dict[str, Any]]:
        with self._lock:
            self._check_iteration(iteration)
            start = self._position
        if not start.ended:
            try:
                while (arrays := self._take_arrays(iteration, start)) is not None:
                    yield Step(to_torch(arrays))
            finally:
                self._stop_reading(iteration)
        with self._lock:
            self._check_iteration(iteration)
            self._has_begun = True
            self._is_over = True
            if get_worker_info() is not None and self._position.ended:
                self._notes.ended = 1

    def _take_arrays(self, iteration: int, start: Position) -> dict[str, Any] | None:
        """Return the next step's arrays; None at the end.

        Threads that read one iteration get different steps.
        """
        with self._lock:
            self._check_iteration(iteration)
            if self._reading != iteration:
                if self._has_begun:
                    raise StreamError(_STALE)
                self._open_steps()
                self._reading = iteration
                self._n_to_skip = self._position.skip
                self._has_begun = True
            steps = self._steps
            if steps is None:
                raise StreamError(_STALE)
            if start.until is not None and steps.n + self._n_to_skip >= start.until:
                self._n_to_skip = start.until - steps.n
                return None
            n_skipped = steps.skip(self._n_to_skip)
            arrays = next(iter(steps), None) if n_skipped == self._n_to_skip else None
            self._n_to_skip = 0
            if arrays is None:
                self._position = replace(self._position, ended=True)
                return None
            if self.tell:
                state = replace(self._current_position(), worker=None).to_json()
                arrays["state"] = json.dumps(state, separators=(",", ":"))
            if start.worker is not None:  # the other workers read the steps between
                self._n_to_skip = start.worker[1] - 1
            return arrays

    def _check_iteration(self, iteration: int) -> None:
        if iteration != self._iteration:
            raise StreamError(_STALE)

    # the open steps

    def _open_steps(self) -> Steps:
        if self._steps is None:
            self._steps = self._new_steps(self.rank, self.world)
            self._first_state = self._steps.state()
            self._is_at_position = self._position.steps is None
        try:
            self._adapt_to_world()
            if not self._is_at_position:
                self._steps.restore(self._position.steps or self._first_state)
        except VoltError:
            self.close()
            raise
        self._is_at_position = True
        return self._steps

    def _new_steps(self, rank: int, world: int) -> Steps:
        options = {"rank": rank, "world": world, **self.options}
        if not callable(self.config):
            return Steps.from_config(self.config, **options)
        made = self.config(**options)
        steps = arguments.instance(made, Steps, "what config returns", remedy="return a Steps")
        if (steps.rank, steps.world) != (rank, world):
            raise ConfigError(
                f"config returned Steps of rank {steps.rank} of {steps.world}, not rank {rank} of {world}; "
                "give Steps the rank and world that config received"
            )
        reader = _READERS.get(steps, lambda: None)()
        if reader not in (None, self):
            raise ConfigError(
                "config returned Steps that another dataset reads; make new Steps each time"
            )
        if steps.n or reader is self:
            raise ConfigError("config returned Steps that have been read; make new Steps each time")
        _READERS[steps] = ref(self)
        return steps

    def _adapt_to_world(self) -> None:
        """Turn a position of another number of ranks into a position of this number."""
        current = self._position
        if current.world == self.world:
            return
        worker, _ = current.worker or (0, 1)
        with self._new_steps(0, current.world) as steps:
            if current.steps is not None:
                steps.restore(current.steps)
            steps.skip(current.skip - worker)
            self._position = replace(current, steps=steps.state(), skip=worker, world=self.world)
        self._is_at_position = False

    def _current_position(self) -> Position:
        if not self._reading or self._steps is None:
            return self._position
        return replace(self._position, steps=self._steps.state(), skip=self._n_to_skip)

    def _stop_reading(self, iteration: int | None = None) -> None:
        """Stop an iteration, by default the current one.

        Its iterator raises an error when it is used again.
        """
        if not can_wait(self._process):
            return
        with self._lock:
            if self._reading and self._steps is not None and iteration in (None, self._reading):
                self._position = self._current_position()
                self._is_at_position = True
                self._reading = 0
                self._steps.close()

    def close(self) -> None:
        """Close the open steps of this process.

        A later iteration reopens them where they stopped.
        """
        if not can_wait(self._process):
            return
        with self._lock:
            self._stop_reading()
            if self._steps is not None:
                self._steps.close()
            self._steps = None
            self._is_at_position = False
            self._iteration += 1

    def __getstate__(self) -> dict[str, Any]:
        if self._reading:
            raise StreamError(
                "the dataset is being read, so it cannot be sent or copied; end the iteration first"
            )
        of_process = ("_steps", "_first_state", "_inherited", "_lock")
        return {name: value for name, value in vars(self).items() if name not in of_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset_process()

    # states

    def state_dict(self) -> dict[str, Any]:
        """Return the state as JSON values; it is the same for all ranks after equally many steps.

        In a worker, it is the state of this worker. Raises StreamError in the main process if
        workers read the steps.
        """
        if get_worker_info() is None and self._notes.read_by:
            raise StreamError(
                "workers read this dataset, so only the loader knows how many steps it gave; "
                "take StreamDataset.state_of(loader.state_dict()) of a StatefulDataLoader, or set tell=True"
            )
        with self._lock:
            return self._current_position().to_json()

    def load_state_dict(self, state: Mapping[str, Any] | str) -> None:
        """Continue from a state, with any number of ranks and workers.

        state: a state from `state_dict`, `state_of`, a batch, or `Steps`
        """
        self._enter_process()
        if isinstance(state, str):
            try:
                state = json.loads(state)
            except ValueError:
                raise StreamError(
                    "state is a string that is not JSON; give the state of a batch"
                ) from None
        position = Position.from_json(state)
        is_own = position.worker == _worker() and position.world == self.world
        if position.worker is not None and not is_own:
            number, n_workers = position.worker
            raise StreamError(
                f"this is the state of worker {number} of {n_workers} of a loader, for "
                f"{counted(position.world, 'rank')}; "
                "take StreamDataset.state_of(loader's state), and load it before you iterate"
            )
        info = get_worker_info()
        with self._lock:
            self._stop_reading()
            self._position = position
            self._is_loaded = True
            self._is_at_position = False
            self._has_begun = False
            self._is_over = False
            self._iteration += 1
            if info is None:
                self._notes.clear()
            else:
                self._notes.note_loaded(position, info)
                self._look_ahead()
            self._notes.read_by = iteration_id(info)
            self._notes.ended = int(self._position.ended)

    def _look_ahead(self) -> None:
        """In a worker, check whether a step follows the loaded state.

        The loader may start other workers first.
        """
        if self._position.ended or self._position.is_over:
            return
        steps = self._open_steps()
        is_last = steps.skip(self._position.skip + 1) <= self._position.skip
        self._position = replace(self._position, ended=is_last)
        self._is_at_position = False

    @staticmethod
    def state_of(loader_state: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the state of a StatefulDataLoader into a state for `load_state_dict`.

        loader_state: the result of the loader's `state_dict`
        """
        values = arguments.mapping(
            loader_state, "loader_state", remedy="give what loader.state_dict() returns"
        )
        try:
            if "_snapshot" not in values:
                return Position.from_json(values["dataset_state"]).to_json()
            workers = values["_snapshot"]["_worker_snapshots"].values()
            positions = [Position.from_json(worker["dataset_state"]) for worker in workers]
            return position_of_loader(positions, n_since=values["_steps_since_snapshot"]).to_json()
        except (KeyError, TypeError, AttributeError):
            raise StreamError(
                "this is not the state of a StatefulDataLoader over a StreamDataset; give loader.state_dict()"
            ) from None


def _raise_later(error: VoltError) -> Iterator[Any]:
    raise error
    yield


def _worker() -> tuple[int, int] | None:
    info = get_worker_info()
    return None if info is None else (info.id, info.num_workers)


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _detect_rank() -> tuple[int, int]:
    if _is_distributed():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return from_environment()


def _check_options(config: Any, options: dict[str, Any]) -> dict[str, Any]:
    if callable(config):
        try:
            with suppress(ValueError):  # the function has no signature
                inspect.signature(config).bind(rank=0, world=1, **options)
        except TypeError as error:
            raise ConfigError(
                f"config cannot be called with rank, world and the options: {error}"
            ) from None
        return options
    makers = Steps.from_config, Stream.from_config, Stream.__init__
    names = {
        name for maker in makers for name in inspect.signature(maker).parameters
    } - _NOT_OPTIONS
    if unknown := sorted({*options} - names):
        raise ConfigError(
            f"StreamDataset has no option {quoted(unknown[0])}; options are {', '.join(sorted(names))}"
        )
    return options


# A loader with a batch size collates steps by this map, and its workers send steps by this pickler.


def _refuse_to_collate(batch: Any, *, collate_fn_map: Any = None) -> NoReturn:
    raise ConfigError(
        "the loader collates steps, which are batches already; use DataLoader(…, batch_size=None)"
    )


default_collate_fn_map[Step] = _refuse_to_collate


class _Packer(pickle.Pickler):
    """Pickle a step with the bytes of its tensors, because a file descriptor for each tensor costs
    much more."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not torch.Tensor:
            return NotImplemented
        try:
            return torch.from_numpy, (value.numpy(),)
        except (TypeError, RuntimeError):  # a tensor of another device, layout or type
            return NotImplemented


def _pack(step: Step) -> tuple[Callable[[bytes], Step], tuple[bytes]]:
    file = io.BytesIO()
    _Packer(file, protocol=5).dump(dict(step))
    return _unpack, (file.getvalue(),)


def _unpack(data: bytes) -> Step:
    return Step(pickle.loads(data))


ForkingPickler.register(Step, _pack)  # for the workers of loaders
