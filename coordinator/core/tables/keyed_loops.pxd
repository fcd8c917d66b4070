cimport cython

cdef unsigned long long _MASK, _ODD_1, _ODD_2, _ODD_3
cdef Py_ssize_t CHANGED, VALUES, _ROWS_MIN

@cython.final
cdef class KeyedRows:
    cdef readonly Py_ssize_t width, count, top
    cdef Py_ssize_t free_count, changed_count
    cdef public object array, _slots_array, _free_array, _changed_array
    cdef long long[:, ::1] cells
    cdef long long[::1] slots
    cdef long long[::1] free
    cdef long long[::1] changed
    cdef Py_ssize_t mask

    cpdef object view(self)

    @cython.locals(wanted=Py_ssize_t, have=Py_ssize_t, rows=Py_ssize_t, places=Py_ssize_t, place=Py_ssize_t)
    cpdef bint reserve(self, Py_ssize_t more) except -1

    @cython.locals(other=KeyedRows)
    cpdef object copy_from(self, KeyedRows other)

    @cython.locals(spread="unsigned long long")
    cdef Py_ssize_t home(self, unsigned long long first, unsigned long long second, unsigned long long third) noexcept

    @cython.locals(place=Py_ssize_t, row=Py_ssize_t)
    cpdef Py_ssize_t find(self, long long first, long long second, long long third) except -2

    @cython.locals(row=Py_ssize_t)
    cpdef Py_ssize_t take_row(self) except -1

    @cython.locals(cell=Py_ssize_t)
    cpdef void set_key(self, Py_ssize_t row, long long first, long long second, long long third) except *

    @cython.locals(place=Py_ssize_t)
    cdef void link(self, Py_ssize_t row) except *

    @cython.locals(place=Py_ssize_t, hole=Py_ssize_t, other=Py_ssize_t, home=Py_ssize_t)
    cpdef void unlink(self, Py_ssize_t row) except *

    @cython.locals(at=Py_ssize_t, row=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t forget(self, long long first, long long second, long long[::1] thirds, long long[::1] rows) except -1

    cpdef void release(self, Py_ssize_t row) except *

    @cython.locals(place=Py_ssize_t)
    cpdef void drop(self, long long[::1] rows) except *

    cpdef void restore(self, Py_ssize_t row, long long first, long long second, long long third) except *
    cpdef void touch(self, Py_ssize_t row) except *
    cpdef void untouch(self, Py_ssize_t row) except *
