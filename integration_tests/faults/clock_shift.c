/* Shifts the wall clock of one process, preloaded into it (LD_PRELOAD). The file named by FAULTS_CLOCK_FILE holds the
 * shift as 8 bytes, nanoseconds in the machine's byte order; whoever writes it makes the clock jump at once. The monotonic
 * clock is the machine's. A wait until a time of the shifted clock gets longer or shorter when the clock jumps, as it does in
 * the kernel; librdkafka has such waits.
 * Needs no header, so that any C compiler will do: the types are those of Linux on 64-bit machines. */

typedef long time_type;
struct timespec_type { time_type seconds; long nanoseconds; };
struct timeval_type { time_type seconds; long microseconds; };

extern long syscall(long number, ...);
extern int open(const char *path, int flags, ...);
extern void *mmap(void *at, unsigned long length, int protection, int flags, int file, long offset);
extern int *__errno_location(void);
extern char *getenv(const char *name);
extern int pthread_cond_clockwait(void *condition, void *mutex, int clock, const struct timespec_type *until);
extern int sem_clockwait(void *semaphore, int clock, const struct timespec_type *until);
extern int pthread_mutex_clocklock(void *mutex, int clock, const struct timespec_type *until);

#if defined(__x86_64__)
#define SYS_CLOCK_GETTIME 228
#elif defined(__aarch64__)
#define SYS_CLOCK_GETTIME 113
#else
#error "the number of the system call clock_gettime is not known for this machine"
#endif

#define WALL_CLOCK 0
#define MONOTONIC_CLOCK 1
#define WALL_CLOCK_COARSE 5
#define TIME_UTC 1
#define TIMED_OUT 110
#define THREAD_SUCCESS 0
#define THREAD_ERROR 2
#define THREAD_TIMED_OUT 4
#define SLICE_NS 100000000L
#define BILLION 1000000000L
/* Deadlines above this many seconds are wall clock times, those below count from the machine's start. */
#define WALL_CLOCK_FROM 1000000000L

static volatile const long *shift;
static const long none = 0;

static long shift_now(void) {
    if (!shift) {
        const char *path = getenv("FAULTS_CLOCK_FILE");
        int file = path ? open(path, 0 /* O_RDONLY */) : -1;
        void *at = file >= 0 ? mmap(0, 8, 1 /* PROT_READ */, 1 /* MAP_SHARED */, file, 0) : (void *)-1;
        shift = at == (void *)-1 ? &none : (const long *)at;
    }
    return *shift;
}

static void add(struct timespec_type *time, long nanoseconds) {
    time->seconds += nanoseconds / BILLION;
    time->nanoseconds += nanoseconds % BILLION;
    if (time->nanoseconds >= BILLION) { time->nanoseconds -= BILLION; time->seconds++; }
    if (time->nanoseconds < 0) { time->nanoseconds += BILLION; time->seconds--; }
}

int clock_gettime(int clock, struct timespec_type *time) {
    int failed = (int)syscall(SYS_CLOCK_GETTIME, (long)clock, time);
    if (!failed && (clock == WALL_CLOCK || clock == WALL_CLOCK_COARSE)) add(time, shift_now());
    return failed;
}

int gettimeofday(struct timeval_type *time, void *zone) {
    struct timespec_type now;
    (void)zone;
    if (clock_gettime(WALL_CLOCK, &now)) return -1;
    time->seconds = now.seconds;
    time->microseconds = now.nanoseconds / 1000;
    return 0;
}

time_type time(time_type *seconds) {
    struct timespec_type now;
    clock_gettime(WALL_CLOCK, &now);
    if (seconds) *seconds = now.seconds;
    return now.seconds;
}

int timespec_get(struct timespec_type *time, int base) {
    return base == TIME_UTC && !clock_gettime(WALL_CLOCK, time) ? base : 0;
}

/* How the kernel treats a wait until a wall clock time when the clock is set: it ends once the new clock has reached it. The
 * real wait is cut into slices for that; `deadline` is the end of the next one. */
static void next_slice(const struct timespec_type *until, struct timespec_type *deadline) {
    struct timespec_type slice_end;
    *deadline = *until;
    add(deadline, -shift_now());
    syscall(SYS_CLOCK_GETTIME, (long)WALL_CLOCK, &slice_end);
    add(&slice_end, SLICE_NS);
    if (deadline->seconds < slice_end.seconds || (deadline->seconds == slice_end.seconds && deadline->nanoseconds <= slice_end.nanoseconds))
        return;
    *deadline = slice_end;
}

static int is_over(const struct timespec_type *until) {
    struct timespec_type now;
    clock_gettime(WALL_CLOCK, &now);
    return now.seconds > until->seconds || (now.seconds == until->seconds && now.nanoseconds >= until->nanoseconds);
}

/* The end of a slice is shown as a wake-up without a cause, which every user of a condition variable has to expect. */
int pthread_cond_timedwait(void *condition, void *mutex, const struct timespec_type *until) {
    struct timespec_type deadline;
    int result;
    if (until->seconds < WALL_CLOCK_FROM) return pthread_cond_clockwait(condition, mutex, MONOTONIC_CLOCK, until);
    next_slice(until, &deadline);
    result = pthread_cond_clockwait(condition, mutex, WALL_CLOCK, &deadline);
    return result == TIMED_OUT && !is_over(until) ? 0 : result;
}

int cnd_timedwait(void *condition, void *mutex, const struct timespec_type *until) {
    switch (pthread_cond_timedwait(condition, mutex, until)) {
    case 0: return THREAD_SUCCESS;
    case TIMED_OUT: return THREAD_TIMED_OUT;
    default: return THREAD_ERROR;
    }
}

int pthread_mutex_timedlock(void *mutex, const struct timespec_type *until) {
    struct timespec_type deadline;
    int result;
    do {
        next_slice(until, &deadline);
        result = pthread_mutex_clocklock(mutex, WALL_CLOCK, &deadline);
    } while (result == TIMED_OUT && !is_over(until));
    return result;
}

int sem_timedwait(void *semaphore, const struct timespec_type *until) {
    struct timespec_type deadline;
    int result;
    do {
        next_slice(until, &deadline);
        result = sem_clockwait(semaphore, WALL_CLOCK, &deadline);
    } while (result && *__errno_location() == TIMED_OUT && !is_over(until));
    return result;
}
