cimport cython

cdef Py_ssize_t AT, BASE, BYTE_OFFSET, COUNT, CURSOR, EPOCH, EXPECTED, FILE_OF, FILE_SIZE, FIRST_SEQUENCE, ITS_EPOCH, ITS_ID, ITS_SLOT
cdef Py_ssize_t LAST_SEQUENCE, LOG_START, ORDER, PLACE, PRODUCER, PRODUCER_SEGMENT, PRODUCER_START, ROW
cdef Py_ssize_t RUN_FIRST, SEGMENT, SEGMENT_ROW, SIZE, SLOT, START, STARTS, STOPS, TIMESTAMP, TYPE
cdef Py_ssize_t BASE_SEQUENCE, BATCHES_OF_FILE, BYTE_GAP, BYTE_SIZE, PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_INDEX, PRODUCERS_OF_FILE
cdef Py_ssize_t RECORD_COUNT_MINUS_ONE, RUN_BASE_OFFSET, RUN_LENGTH, RUN_LOG_START, RUN_PARTITION, RUN_TOPIC, RUNS_OF_FILE
cdef Py_ssize_t TIMESTAMP_AGE, TIMESTAMP_TYPE

@cython.locals(top=cython.longlong)
cdef long long _int32(const unsigned char* data, Py_ssize_t at) except? -1

@cython.locals(low=cython.longlong, high=cython.longlong)
cdef long long _int64(const unsigned char* data, Py_ssize_t at) except? -1

@cython.locals(back=Py_ssize_t)
cdef bint _is_equal(const unsigned char* data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t length) except -1

@cython.locals(
    at=Py_ssize_t, place=Py_ssize_t, places=Py_ssize_t, run=Py_ssize_t, file=Py_ssize_t, first_run=Py_ssize_t, first_place=Py_ssize_t,
    topic_at=Py_ssize_t, _=Py_ssize_t, of_file=cython.longlong, file_size=cython.longlong, end_of_previous=cython.longlong,
    row_now=cython.longlong, ordinal=cython.longlong, offset=cython.longlong, length=cython.longlong, first=cython.longlong,
    last=cython.longlong, time=cython.longlong, kind=cython.longlong, guess=Py_ssize_t, before=cython.longlong,
    data="const unsigned char*", known=dict, ids=list, ids_before=list,
)
cpdef Py_ssize_t read_batches(
    bytes raw, Py_ssize_t file_count, long long append_time_ms, dict index, long long[::1] seen, long long[:, ::1] files, long long[:, ::1] columns,
    long long[:, ::1] batches, long long[:, ::1] runs, list topics,
) except? -1

@cython.locals(
    segments=Py_ssize_t, unusual=Py_ssize_t, segment=Py_ssize_t, run=Py_ssize_t, place=Py_ssize_t,
    at=cython.longlong, end=cython.longlong, length=cython.longlong, base=cython.longlong,
)
cpdef Py_ssize_t assign_offsets(
    Py_ssize_t places, Py_ssize_t found, long long offsets_max, long long[:, ::1] columns, long long[:, ::1] batches, long long[:, ::1] runs,
    const long long[::1] high_watermark, const long long[::1] log_start, long long[::1] mark,
) except? -1

@cython.locals(
    found=Py_ssize_t, count=Py_ssize_t, before=Py_ssize_t, unusual=Py_ssize_t, place=Py_ssize_t, places=Py_ssize_t, at=Py_ssize_t,
    number=Py_ssize_t, slot=Py_ssize_t, newest=Py_ssize_t, row=cython.longlong, file=Py_ssize_t, producer=cython.longlong,
    its_epoch=cython.longlong, first=cython.longlong, last=cython.longlong, end=cython.longlong, data="const unsigned char*",
    guess=Py_ssize_t, guess_mask=cython.longlong, new=dict, of_partition=dict,
)
cpdef Py_ssize_t read_producers(
    bytes raw, dict index, long long[::1] guesses, const long long[::1] owner, const long long[::1] producer_of_slot,
    const long long[::1] table_epoch, const long long[::1] head, const long long[::1] ring_last, long long[::1] mark,
    long long[:, ::1] files, const long long[:, ::1] columns, const long long[:, ::1] batches, long long[:, ::1] idempotent,
    long long[:, ::1] producers,
) except? -1

@cython.locals(number=Py_ssize_t, at=Py_ssize_t, place=cython.longlong, sequence=cython.longlong, to=cython.longlong)
cpdef object sort_by_producer(
    Py_ssize_t found, Py_ssize_t count, const long long[:, ::1] columns, const long long[:, ::1] batches, const long long[:, ::1] idempotent,
    long long[:, ::1] producers, long long[:, ::1] of_batch, long long[:, ::1] of_producer,
)
