cimport cython

from coordinator.core.tables.keyed_loops cimport KeyedRows

cdef Py_ssize_t FIRST_OFFSET, HIGH_WATERMARK, KNOWN_EPOCH, LAST_APPEND, MAX_TIMESTAMP, MAX_TIMESTAMP_OFFSET, RING, RING_COUNT, RING_HEAD, START_OFFSET
cdef Py_ssize_t BASE_OFFSET, BASE_SEQUENCE, BYTE_OFFSET, BYTE_SIZE, DETAIL, FILE, LOG_START, PARTITION, PRODUCER_EPOCH, PRODUCER_ID
cdef Py_ssize_t RECORD_COUNT, ROW, TIMESTAMP, TIMESTAMP_TYPE, TOPIC_HIGH, TOPIC_LOW, VERDICT
cdef long long _ACCEPTED, _DUPLICATE, _GAP, _NEW_EPOCH_GAP, _FENCED, _WRONG_SPAN, _NO_ROOM
cdef long long DECIDED, HAS_REFUSALS, UNKNOWN_PARTITION, NO_PARTITION, WRONG_OFFSET, FAR_BYTES, OLD_EPOCH, WRONG_SEQUENCE, PENDING

@cython.final
cdef class _Cells:
    cdef long long[:, ::1] cells

@cython.locals(line=Py_ssize_t, row=Py_ssize_t, near=Py_ssize_t)
cdef Py_ssize_t _find_partitions(_Cells lines, Py_ssize_t first, Py_ssize_t stop, KeyedRows partitions) except -2

cdef Py_ssize_t _row_of(_Cells lines, Py_ssize_t line, Py_ssize_t near, KeyedRows partitions) except -2

@cython.locals(
    epoch=cython.longlong, known=cython.longlong, first=cython.longlong, last=cython.longlong, held=Py_ssize_t, newest=Py_ssize_t,
    place=Py_ssize_t, cell=Py_ssize_t, _=Py_ssize_t, expected=cython.longlong,
)
cdef long long _judge_sequence(
    _Cells lines, Py_ssize_t line, Py_ssize_t slot, long long due, KeyedRows producers, bint is_retry_known,
) except -1

@cython.locals(
    row=Py_ssize_t, base=cython.longlong, next_offset=cython.longlong, is_append_time=bint, effective=cython.longlong,
    epoch=cython.longlong, first=cython.longlong, place=Py_ssize_t, cell=Py_ssize_t,
)
cdef Py_ssize_t _accept(
    _Cells lines, Py_ssize_t line, Py_ssize_t slot, long long append_time, KeyedRows partitions, KeyedRows producers,
) except -2

@cython.locals(file=Py_ssize_t, first=Py_ssize_t, stop=Py_ssize_t, line=Py_ssize_t, verdict=cython.longlong, lines=_Cells, outcomes=list, outcome=cython.longlong)
cpdef list decide_files(
    long long[:, ::1] table, list first_line, long long append_time, long long offsets_max, KeyedRows partitions, KeyedRows producers,
)

@cython.locals(
    row=Py_ssize_t, count=cython.longlong, slot=Py_ssize_t, due=cython.longlong, first=cython.longlong, verdict=cython.longlong,
)
cdef long long _decide(
    _Cells lines, Py_ssize_t line, long long append_time, long long offsets_max, KeyedRows partitions, KeyedRows producers,
) except -1

@cython.locals(
    file=Py_ssize_t, used=Py_ssize_t, line=Py_ssize_t, row=Py_ssize_t, slot=Py_ssize_t, reason=cython.longlong, expected=cython.longlong,
    verdict=cython.longlong, lines=_Cells, undo=_Cells, new=Py_ssize_t, near=Py_ssize_t,
)
cpdef Py_ssize_t apply_files(
    long long[:, ::1] table, const long long[::1] bounds, Py_ssize_t first_file, Py_ssize_t stop_file, const long long[::1] append_times,
    KeyedRows partitions, KeyedRows producers, long long[::1] accepted, long long[:, ::1] journal, long long[::1] fault,
) except -1

@cython.locals(cell=Py_ssize_t, place=Py_ssize_t)
cdef void _note(
    _Cells undo, Py_ssize_t at, Py_ssize_t row, Py_ssize_t slot, KeyedRows partitions, KeyedRows producers,
) except *

@cython.locals(at=Py_ssize_t, row=Py_ssize_t, slot=Py_ssize_t, new=Py_ssize_t, cell=Py_ssize_t, place=Py_ssize_t)
cdef void _take_back(_Cells undo, Py_ssize_t used, KeyedRows partitions, KeyedRows producers) except *
