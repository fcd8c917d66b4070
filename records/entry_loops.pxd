cimport cython

@cython.locals(unsigned=cython.ulonglong)
cdef Py_ssize_t _put(unsigned char[::1] out, Py_ssize_t at, long long number) except -1

@cython.locals(at=Py_ssize_t, place=Py_ssize_t)
cpdef Py_ssize_t write_varints(const long long[::1] numbers, unsigned char[::1] out) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_bytes(unsigned char[::1] out, Py_ssize_t at, bytes data) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_column(unsigned char[::1] out, Py_ssize_t at, const long long[::1] values, Py_ssize_t start, Py_ssize_t stop) except -1

@cython.locals(place=Py_ssize_t)
cdef Py_ssize_t _put_sparse(unsigned char[::1] out, Py_ssize_t at, const long long[::1] values, Py_ssize_t start, Py_ssize_t stop) except -1

@cython.locals(key=bytes, content_hash=bytes, owner_ids=list, topic_id=bytes)
cdef Py_ssize_t _put_head(unsigned char[::1] out, Py_ssize_t at, object head, list topic_ids) except -1

@cython.locals(
    at=Py_ssize_t, run=Py_ssize_t, batch=Py_ssize_t, producer=Py_ssize_t, runs=Py_ssize_t, batches=Py_ssize_t, producers=Py_ssize_t,
    file=Py_ssize_t,
)
cpdef Py_ssize_t write_entries(
    unsigned char[::1] out, long long[::1] ends, bytes prefix, bytes suffix, list heads, list topic_ids,
    const long long[::1] runs_of_file, const long long[::1] batches_of_file, const long long[::1] producers_of_file,
    const long long[::1] run_topic, const long long[::1] run_partition, const long long[::1] run_length,
    const long long[::1] run_base_offset, const long long[::1] run_log_start, const long long[::1] byte_gap,
    const long long[::1] byte_size, const long long[::1] record_count_minus_one, const long long[::1] timestamp_age,
    const long long[::1] timestamp_type, const long long[::1] producer_index, const long long[::1] producer_id,
    const long long[::1] producer_epoch, const long long[::1] base_sequence,
) except -1
