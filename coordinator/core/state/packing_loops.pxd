cimport cython

from coordinator.core.tables.keyed_loops cimport KeyedRows

cdef Py_ssize_t RING, RING_COUNT, RING_HEAD

cdef unsigned long long _MASK, _SEED_LOW, _SEED_HIGH, _MULTIPLY_1, _MULTIPLY_2

cdef unsigned long long _mixed(unsigned long long x) noexcept nogil

cdef unsigned long long _low(unsigned long long lane, unsigned long long word) noexcept nogil

cdef unsigned long long _high(unsigned long long lane, unsigned long long word) noexcept nogil

@cython.locals(
    at=Py_ssize_t, low_start=cython.ulonglong, high_start=cython.ulonglong, low_sum=cython.ulonglong, high_sum=cython.ulonglong,
    word_0=cython.ulonglong, word_1=cython.ulonglong, word_2=cython.ulonglong, word_3=cython.ulonglong, word_4=cython.ulonglong,
)
cdef int _add_hashes(
    const long long[:, ::1] rows, Py_ssize_t start, Py_ssize_t stop, long long low_key, long long high_key,
    unsigned long long[:, ::1] sums, Py_ssize_t to,
) except -1 nogil

cpdef object add_hashes(
    const long long[:, ::1] rows, Py_ssize_t start, Py_ssize_t stop, long long low_key, long long high_key,
    unsigned long long[:, ::1] sums, Py_ssize_t to,
)

@cython.locals(
    at=Py_ssize_t, last=Py_ssize_t, file_base=cython.longlong, file_last=cython.longlong, time_base=cython.longlong,
    time_last=cython.longlong, newest=cython.ulonglong, oldest=cython.ulonglong, max_timestamp=cython.longlong,
    file=cython.longlong, timestamp=cython.longlong, effective=cython.longlong, count=cython.longlong, log_append=cython.longlong,
)
cdef bint _pack_run(
    const long long[:, ::1] rows, Py_ssize_t start, Py_ssize_t stop, unsigned int[:, ::1] packed, long long[:, ::1] run, Py_ssize_t to
) except -1 nogil

@cython.locals(
    found=Py_ssize_t, stretch=Py_ssize_t, at=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, owner=Py_ssize_t,
)
cdef Py_ssize_t _pack_stretches(
    const long long[:, ::1] rows, const long long[::1] starts, const long long[::1] stops, const long long[::1] partition,
    const long long[:, ::1] lanes, unsigned int[:, ::1] packed, long long[:, ::1] runs,
    unsigned long long[:, ::1] sums,
) except -1 nogil

cpdef Py_ssize_t pack_stretches(
    const long long[:, ::1] rows, const long long[::1] starts, const long long[::1] stops, const long long[::1] partition,
    const long long[:, ::1] lanes, unsigned int[:, ::1] packed, long long[:, ::1] runs,
    unsigned long long[:, ::1] sums,
) except -1

@cython.locals(
    at=Py_ssize_t, batch=Py_ssize_t, place=Py_ssize_t, stop=Py_ssize_t, middle=Py_ssize_t, known=Py_ssize_t,
    low_start=cython.ulonglong, high_start=cython.ulonglong, low_sum=cython.ulonglong, high_sum=cython.ulonglong,
    first=cython.longlong, next_offset=cython.longlong, file=cython.longlong, count=cython.ulonglong, count_bits=cython.uint,
    kind=cython.ulonglong, byte_offset=cython.ulonglong, size=cython.ulonglong, index=cython.ulonglong,
    word_0=cython.ulonglong, word_1=cython.ulonglong, word_2=cython.ulonglong, word_3=cython.ulonglong, word_4=cython.ulonglong,
)
cpdef long long add_run(
    const unsigned int[::1] cells, long long base, long long file_base, long long timestamp_base, long long from_offset,
    long long live_from, long long low_key, long long high_key, unsigned long long[:, ::1] sums, Py_ssize_t to,
    const long long[::1] files, long long[::1] counts,
) except? -1

@cython.locals(
    at=Py_ssize_t, batch=Py_ssize_t, gone=Py_ssize_t,
    low_start=cython.ulonglong, high_start=cython.ulonglong, low_sum=cython.ulonglong, high_sum=cython.ulonglong,
    first=cython.longlong, next_offset=cython.longlong, file=cython.longlong, count=cython.ulonglong, count_bits=cython.uint,
    kind=cython.ulonglong, byte_offset=cython.ulonglong, size=cython.ulonglong, index=cython.ulonglong,
    word_0=cython.ulonglong, word_1=cython.ulonglong, word_2=cython.ulonglong, word_3=cython.ulonglong, word_4=cython.ulonglong,
)
cpdef Py_ssize_t take_out_run(
    const unsigned int[::1] cells, long long base, long long file_base, long long timestamp_base, long long first_offset,
    long long target, long long end, long long low_key, long long high_key, unsigned long long[:, ::1] sums, long long[::1] files,
    long long[::1] behind,
) except -1

@cython.locals(at=Py_ssize_t, file=object, count=cython.longlong, found=list)
cpdef list count_losses(const long long[::1] files, dict others, dict lost)

@cython.locals(at=Py_ssize_t, column=Py_ssize_t, lane=cython.ulonglong, word=cython.ulonglong)
cdef int _hash_lines(const long long[:, ::1] lines, unsigned long long[::1] hashes) except -1 nogil

cpdef object hash_lines(const long long[:, ::1] lines, unsigned long long[::1] hashes)

@cython.locals(batch=Py_ssize_t, at=Py_ssize_t, file=cython.longlong, timestamp=cython.longlong)
cpdef bint count_from_lower_bases(unsigned int[::1] cells, Py_ssize_t start, Py_ssize_t stop, long long files, long long time) except -1

@cython.locals(to=Py_ssize_t, place=Py_ssize_t, row=Py_ssize_t, remembered=Py_ssize_t, batch=Py_ssize_t, cell=Py_ssize_t, _=Py_ssize_t)
cpdef Py_ssize_t copy_rings(
    const long long[::1] which, KeyedRows producers, int[:, ::1] sequences, long long[:, ::1] others, long long[::1] ends,
) except -1
