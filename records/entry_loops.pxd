cimport cython

cdef Py_ssize_t BASE_SEQUENCE, BATCHES_OF_FILE, BYTE_GAP, BYTE_SIZE, PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_INDEX, PRODUCERS_OF_FILE
cdef Py_ssize_t RECORD_COUNT_MINUS_ONE, RUN_BASE_OFFSET, RUN_LENGTH, RUN_LOG_START, RUN_PARTITION, RUN_TOPIC, RUNS_OF_FILE
cdef Py_ssize_t TIMESTAMP_AGE, TIMESTAMP_TYPE

@cython.locals(unsigned=cython.ulonglong)
cdef Py_ssize_t _put(unsigned char[::1] out, Py_ssize_t at, long long number) except -1

@cython.locals(at=Py_ssize_t, place=Py_ssize_t)
cpdef Py_ssize_t write_varints(const long long[::1] numbers, unsigned char[::1] out) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_bytes(unsigned char[::1] out, Py_ssize_t at, bytes data) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_column(
    unsigned char[::1] out, Py_ssize_t at, const long long[:, ::1] table, Py_ssize_t row, Py_ssize_t start, Py_ssize_t stop
) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_sparse(
    unsigned char[::1] out, Py_ssize_t at, const long long[:, ::1] table, Py_ssize_t row, Py_ssize_t start, Py_ssize_t stop
) except -1

@cython.locals(key=bytes, content_hash=bytes, owner_ids=list, topic_id=bytes)
cdef Py_ssize_t _put_head(unsigned char[::1] out, Py_ssize_t at, object head, list topic_ids) except -1

@cython.locals(
    at=Py_ssize_t, run=Py_ssize_t, batch=Py_ssize_t, producer=Py_ssize_t, run_stop=Py_ssize_t, batch_stop=Py_ssize_t,
    producer_stop=Py_ssize_t, file=Py_ssize_t,
)
cpdef Py_ssize_t write_entries(
    unsigned char[::1] out, long long[::1] ends, bytes prefix, bytes suffix, list heads, list topic_ids, const long long[:, ::1] files,
    const long long[:, ::1] runs, const long long[:, ::1] batches, const long long[:, ::1] idempotent,
) except -1
