cimport cython

@cython.locals(
    files=Py_ssize_t, owners=Py_ssize_t, runs=Py_ssize_t, batches=Py_ssize_t, producers=Py_ssize_t, others=Py_ssize_t,
    accepted=Py_ssize_t, message=Py_ssize_t, at=Py_ssize_t, found=Py_ssize_t,
)
cpdef list read_files(
    const unsigned char[::1] data, const unsigned char[::1] prefixes, const long long[::1] starts, const long long[::1] ends,
    long long owners_max, long long[::1] scratch, long long[:, ::1] heads, long long[::1] owner_ids, long long[:, ::1] columns,
)

@cython.locals(place=Py_ssize_t, byte=cython.uchar, unsigned=cython.ulonglong, shift=cython.int, high=cython.ulonglong, half=cython.longlong)
cpdef Py_ssize_t read_varints(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, long long[::1] numbers) except -2

@cython.locals(place=Py_ssize_t, byte=cython.uchar, unsigned=cython.ulonglong, shift=cython.int, high=cython.ulonglong, half=cython.longlong)
cpdef Py_ssize_t read_all_varints(const unsigned char[::1] data, Py_ssize_t at, Py_ssize_t end, long long[::1] numbers) except -2

@cython.locals(owners=cython.longlong, topics=cython.longlong, place=Py_ssize_t)
cdef Py_ssize_t _read_head(
    const unsigned char[::1] data, const unsigned char[::1] prefixes, Py_ssize_t at, Py_ssize_t end, long long owners_max,
    long long[::1] scratch, long long[:, ::1] heads, long long[::1] owner_ids, Py_ssize_t first_owner, Py_ssize_t file,
) except -2

@cython.locals(prefix=Py_ssize_t, place=Py_ssize_t)
cdef bint _has_prefix(const unsigned char[::1] data, Py_ssize_t at, const unsigned char[::1] prefixes) except -1

@cython.locals(bits=cython.uchar, at=Py_ssize_t)
cdef bint _is_text(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -1

@cython.locals(place=Py_ssize_t, least=cython.longlong, greatest=cython.longlong)
cdef bint _are_ints(long long[::1] numbers, Py_ssize_t first, Py_ssize_t count) except -1

@cython.locals(
    int_max=cython.longlong, long_max=cython.longlong, long_min=cython.longlong, run_count=cython.longlong,
    place=Py_ssize_t, batch_count=cython.longlong, base_max=cython.longlong, run=Py_ssize_t, appended=cython.longlong,
    age_min=cython.longlong, age_max=cython.longlong, gaps_at=Py_ssize_t, records=cython.longlong, batch=Py_ssize_t,
    producer_count=cython.longlong, other_count=cython.longlong,
)
cdef bint _read_columns(
    long long[::1] numbers, Py_ssize_t found, long long[:, ::1] heads, Py_ssize_t file, long long[:, ::1] columns,
    Py_ssize_t first_run, Py_ssize_t first_batch, Py_ssize_t first_producer, Py_ssize_t first_other,
) except -1

@cython.locals(at=Py_ssize_t, value=cython.longlong)
cdef Py_ssize_t _read_column(
    long long[::1] numbers, Py_ssize_t place, Py_ssize_t found, long long count, long long low, long long high, long long[:, ::1] out,
    Py_ssize_t row, Py_ssize_t first,
) except -2

@cython.locals(at=Py_ssize_t)
cdef Py_ssize_t _read_sparse(
    long long[::1] numbers, Py_ssize_t place, Py_ssize_t found, long long count, long long low, long long high, long long[:, ::1] out,
    Py_ssize_t row, Py_ssize_t first,
) except -2

@cython.locals(long_max=cython.longlong, position=cython.longlong, batch=Py_ssize_t, gap=cython.longlong, size=cython.longlong)
cdef bint _are_positions(long long[:, ::1] columns, Py_ssize_t first, Py_ssize_t count) except -1

@cython.locals(total=cython.longlong, at=Py_ssize_t)
cdef bint _are_distances(long long[:, ::1] columns, Py_ssize_t row, Py_ssize_t first, Py_ssize_t count, long long limit) except -1
