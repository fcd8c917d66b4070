cimport cython

@cython.locals(at=Py_ssize_t, row=Py_ssize_t, end=Py_ssize_t, key_bytes=Py_ssize_t, common=cython.longlong, owner=cython.longlong, data="const unsigned char*")
cpdef long long common_owner(bytes batches, dict owners) except? -2
