/* Makes the disk of one process refuse, preloaded into it (LD_PRELOAD): calls on files below FAULTS_DISK_FOLDER fail while
 * the file named by FAULTS_DISK_FILE says so. That file holds three numbers of 8 bytes in the machine's byte order: the error
 * of calls that write, the error of calls that read (0: none), and of how many such calls one fails (1: every one).
 * (A real disk cannot be made read-only while files on it are open for writing.)
 * Needs no header, so that any C compiler will do: the types are those of Linux on 64-bit machines. */

typedef unsigned long size_type;
typedef long off_type;

extern void *dlsym(void *handle, const char *name);
extern int snprintf(char *at, size_type size, const char *format, ...);
extern long readlink(const char *path, char *at, size_type size);
extern int strncmp(const char *one, const char *other, size_type size);
extern size_type strlen(const char *text);
extern char *getenv(const char *name);
extern void *mmap(void *at, size_type length, int protection, int flags, int file, off_type offset);
extern int *__errno_location(void);

#define NEXT(name) dlsym((void *)-1L, name)
#define WRITES 0
#define READS 1
#define FLAGS_THAT_WRITE (1 | 2 | 0100 | 01000) /* O_WRONLY | O_RDWR | O_CREAT | O_TRUNC */
#define FLAGS_WITH_MODE (0100 | 020200000)      /* O_CREAT | O_TMPFILE */

static const long none[3];
static const volatile long *wanted;
static const char *folder;
static unsigned long calls;

static const volatile long *wanted_now(void) {
    if (!wanted) {
        int (*real_open)(const char *, int, ...) = (int (*)(const char *, int, ...))NEXT("open");
        const char *path = getenv("FAULTS_DISK_FILE");
        int file = path ? real_open(path, 0 /* O_RDONLY */) : -1;
        void *at = file >= 0 ? mmap(0, sizeof none, 1 /* PROT_READ */, 1 /* MAP_SHARED */, file, 0) : (void *)-1L;
        folder = getenv("FAULTS_DISK_FOLDER");
        wanted = at == (void *)-1L || !folder ? none : (const volatile long *)at;
    }
    return wanted;
}

/* The error a call on a path is to fail with, 0 for none. */
static int refusal_of_path(const char *path, int kind) {
    const volatile long *now = wanted_now();
    if (!now[kind] || !path || strncmp(path, folder, strlen(folder))) return 0;
    if (now[2] > 1 && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % (unsigned long)now[2]) return 0;
    return (int)now[kind];
}

static int refusal_of_file(int file, int kind) {
    char link[64], path[4096];
    long length;
    if (!wanted_now()[kind]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return refusal_of_path(path, kind);
}

#define FAIL_IF(refusal)                                                                                                                  \
    do {                                                                                                                                  \
        int error = (refusal);                                                                                                            \
        if (error) { *__errno_location() = error; return -1; }                                                                            \
    } while (0)

#define ON_FILE(result, name, kind, parameters, arguments)                                                                                \
    result name parameters {                                                                                                              \
        static result (*real) parameters;                                                                                                 \
        if (!real) real = (result (*) parameters)NEXT(#name);                                                                             \
        FAIL_IF(refusal_of_file(file, kind));                                                                                             \
        return real arguments;                                                                                                            \
    }

#define ON_PATH(name, parameters, arguments)                                                                                              \
    int name parameters {                                                                                                                 \
        static int (*real) parameters;                                                                                                    \
        if (!real) real = (int (*) parameters)NEXT(#name);                                                                                \
        FAIL_IF(refusal_of_path(path, WRITES));                                                                                           \
        return real arguments;                                                                                                            \
    }

#define ON_OPEN(name)                                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                                          \
        static int (*real)(const char *, int, ...);                                                                                       \
        int mode = 0;                                                                                                                     \
        if (flags & FLAGS_WITH_MODE) {                                                                                                    \
            __builtin_va_list more;                                                                                                       \
            __builtin_va_start(more, flags);                                                                                              \
            mode = __builtin_va_arg(more, int);                                                                                           \
            __builtin_va_end(more);                                                                                                       \
        }                                                                                                                                 \
        if (!real) real = (int (*)(const char *, int, ...))NEXT(#name);                                                                   \
        if (flags & FLAGS_THAT_WRITE) FAIL_IF(refusal_of_path(path, WRITES));                                                             \
        return real(path, flags, mode);                                                                                                   \
    }

ON_OPEN(open)
ON_OPEN(open64)
ON_FILE(long, write, WRITES, (int file, const void *from, size_type size), (file, from, size))
ON_FILE(long, pwrite, WRITES, (int file, const void *from, size_type size, off_type at), (file, from, size, at))
ON_FILE(long, pwrite64, WRITES, (int file, const void *from, size_type size, off_type at), (file, from, size, at))
ON_FILE(int, ftruncate, WRITES, (int file, off_type size), (file, size))
ON_FILE(int, ftruncate64, WRITES, (int file, off_type size), (file, size))
ON_FILE(int, fsync, WRITES, (int file), (file))
ON_FILE(int, fdatasync, WRITES, (int file), (file))
ON_FILE(long, read, READS, (int file, void *to, size_type size), (file, to, size))
ON_FILE(long, pread, READS, (int file, void *to, size_type size, off_type at), (file, to, size, at))
ON_FILE(long, pread64, READS, (int file, void *to, size_type size, off_type at), (file, to, size, at))
ON_PATH(unlink, (const char *path), (path))
ON_PATH(rmdir, (const char *path), (path))
ON_PATH(mkdir, (const char *path, unsigned mode), (path, mode))
ON_PATH(rename, (const char *path, const char *to), (path, to))
