cimport cython

cdef unsigned long long _MASK
cdef unsigned long long _START_0, _START_1, _START_2, _START_3, _START_4, _START_5, _START_6, _START_7

@cython.locals(start=cython.longlong, row=Py_ssize_t, raw="const unsigned char*", order="const unsigned char*")
cpdef object hash_spans(bytes data, const long long[::1] ends, Py_ssize_t size, unsigned char[:, ::1] hashes)

@cython.locals(
    at=Py_ssize_t, row=Py_ssize_t, stop=Py_ssize_t, hashed=cython.ulonglong, word=Py_ssize_t, place=Py_ssize_t, byte=cython.ulonglong,
    state="unsigned long long[8]", block="unsigned long long[16]",
)
cdef int _hash_spans(
    const unsigned char* raw, const long long[::1] ends, Py_ssize_t size, const unsigned char* order, unsigned char[:, ::1] hashes,
) except -1 nogil

@cython.locals(low=cython.ulonglong, high=cython.ulonglong)
cdef unsigned long long _word_at(const unsigned char* raw, Py_ssize_t at) noexcept nogil

cdef unsigned long long _bits(unsigned long long number) noexcept nogil

cdef (unsigned long long, unsigned long long, unsigned long long, unsigned long long) _mix(
    unsigned long long a, unsigned long long b, unsigned long long c, unsigned long long d, unsigned long long x, unsigned long long y,
) noexcept nogil

@cython.locals(
    at=Py_ssize_t, v0=cython.ulonglong, v1=cython.ulonglong, v2=cython.ulonglong, v3=cython.ulonglong, v4=cython.ulonglong,
    v5=cython.ulonglong, v6=cython.ulonglong, v7=cython.ulonglong, v8=cython.ulonglong, v9=cython.ulonglong, v10=cython.ulonglong,
    v11=cython.ulonglong, v12=cython.ulonglong, v13=cython.ulonglong, v14=cython.ulonglong, v15=cython.ulonglong,
)
cdef void _compress(
    unsigned long long* state, unsigned long long* block, const unsigned char* order, unsigned long long hashed, bint is_last,
) noexcept nogil
