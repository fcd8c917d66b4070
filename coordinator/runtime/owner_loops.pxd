cimport cython

@cython.locals(at=Py_ssize_t, row=Py_ssize_t, end=Py_ssize_t, key_bytes=Py_ssize_t, common=cython.longlong, owner=cython.longlong, data="const unsigned char*")
cdef long long _common_owner(bytes batches, dict owners) except? -2

@cython.locals(found=list, batches=bytes, owner=cython.longlong, last=cython.longlong, at=Py_ssize_t)
cpdef list owners_of_files(list files, dict owners)
