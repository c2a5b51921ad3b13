/* Faults under a process: the n-th call of one kind on files below a folder fails, or does half of what it was asked.

   Loaded by LD_PRELOAD. It does nothing until volt_faults_arm is called, which a forked child does through ctypes. Then
   it counts calls on descriptors whose file lies below the folder, so that Python's own imports are neither counted nor
   hit. What it counts lies in memory that parent and child share.

   A failing close closes; a failing fclose as well. What C's buffered I/O does inside the C library is not seen, so
   fwrite, fread, fflush and fclose stand for it. Maps of files (mmap) are not touched. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, FSYNC, RENAME, CLOSE, N_KINDS };
enum { GO, FAIL, HALF };

static struct { atomic_long counts[N_KINDS]; atomic_long fired; } *shared;
static struct { int armed, kind, error, half, sticky; long n; char folder[PATH_MAX]; size_t length; } plan;
static atomic_char watched[65536];

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

__attribute__((constructor)) static void start(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* What is to happen to the next call of a kind. */
static int next_call(int kind) {
    if (!plan.armed) return GO;
    long now = atomic_fetch_add(&shared->counts[kind], 1) + 1;
    if (kind != plan.kind || !(plan.sticky ? now >= plan.n : now == plan.n)) return GO;
    atomic_fetch_add(&shared->fired, 1);
    if (plan.half) return HALF;
    errno = plan.error;
    return FAIL;
}

static int is_watched(int number) { return plan.armed && number >= 0 && number < 65536 && watched[number]; }
static void watch(int number, int how) { if (number >= 0 && number < 65536) watched[number] = how; }

/* Whether a path lies below the folder. */
static int is_below(int where, const char *path) {
    char whole[2 * PATH_MAX], base[PATH_MAX];
    if (!plan.armed || !path) return 0;
    if (path[0] == '/') snprintf(whole, sizeof whole, "%s", path);
    else {
        if (where == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
        else {
            char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", where);
            ssize_t n = readlink(link, base, sizeof base - 1);
            if (n < 0) return 0;
            base[n] = 0;
        }
        snprintf(whole, sizeof whole, "%s/%s", base, path);
    }
    return !strncmp(whole, plan.folder, plan.length) && (whole[plan.length] == '/' || !whole[plan.length]);
}

static int is_file(int number) { struct stat found; return !fstat(number, &found) && S_ISREG(found.st_mode); }

/* error: what fails;  half: do half of a read or write instead;  sticky: all later calls of this kind as well. */
void volt_faults_arm(const char *folder, int kind, long n, int error, int half, int sticky) {
    snprintf(plan.folder, sizeof plan.folder, "%s", folder);
    plan.length = strlen(plan.folder);
    plan.kind = kind; plan.n = n; plan.error = error; plan.half = half; plan.sticky = sticky;
    memset((void *)watched, 0, sizeof watched);
    plan.armed = 1;
    for (int number = 0; number < 3; number++) {
        char link[64], path[PATH_MAX]; snprintf(link, sizeof link, "/proc/self/fd/%d", number);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 0) { path[n] = 0; watch(number, number < 2 && is_below(AT_FDCWD, path) && is_file(number)); }
    }
}

long *volt_faults_counts(void) { return (long *)shared; }

#define OPENING(name, where, path, call)                                                                  \
    int below = is_below(where, path);                                                                     \
    if (below && next_call(OPEN) == FAIL) return -1;                                                      \
    int number = call;                                                                                     \
    watch(number, below && is_file(number));                                                               \
    return number;

#define MODE(last) va_list rest; va_start(rest, last); mode_t mode = va_arg(rest, int); va_end(rest)

int open(const char *path, int flags, ...) { MODE(flags); OPENING(open, AT_FDCWD, path, REAL(open)(path, flags, mode)) }
int open64(const char *path, int flags, ...) { MODE(flags); OPENING(open64, AT_FDCWD, path, REAL(open64)(path, flags, mode)) }
int openat(int at, const char *path, int flags, ...) { MODE(flags); OPENING(openat, at, path, REAL(openat)(at, path, flags, mode)) }
int openat64(int at, const char *path, int flags, ...) { MODE(flags); OPENING(openat64, at, path, REAL(openat64)(at, path, flags, mode)) }

#define FOPENING(call)                                                                                     \
    int below = is_below(AT_FDCWD, path);                                                                  \
    if (below && next_call(OPEN) == FAIL) return NULL;                                                    \
    FILE *file = call;                                                                                     \
    if (file) watch(fileno(file), below && is_file(fileno(file)));                                         \
    return file;

FILE *fopen(const char *path, const char *mode) { FOPENING(REAL(fopen)(path, mode)) }
FILE *fopen64(const char *path, const char *mode) { FOPENING(REAL(fopen64)(path, mode)) }

/* A call on a descriptor that moves `size` bytes. */
#define MOVING(kind, number, size, call)                                                                   \
    size_t asked = (size);                                                                                 \
    if (is_watched(number)) switch (next_call(kind)) {                                                     \
        case FAIL: return -1;                                                                              \
        case HALF: if (asked > 1) asked = (asked + 1) / 2;                                                 \
    }                                                                                                      \
    return call;

ssize_t read(int number, void *room, size_t size) { MOVING(READ, number, size, REAL(read)(number, room, asked)) }
ssize_t pread(int number, void *room, size_t size, off_t at) { MOVING(READ, number, size, REAL(pread)(number, room, asked, at)) }
ssize_t pread64(int number, void *room, size_t size, off64_t at) { MOVING(READ, number, size, REAL(pread64)(number, room, asked, at)) }
ssize_t write(int number, const void *data, size_t size) { MOVING(WRITE, number, size, REAL(write)(number, data, asked)) }
ssize_t pwrite(int number, const void *data, size_t size, off_t at) { MOVING(WRITE, number, size, REAL(pwrite)(number, data, asked, at)) }
ssize_t pwrite64(int number, const void *data, size_t size, off64_t at) { MOVING(WRITE, number, size, REAL(pwrite64)(number, data, asked, at)) }

/* As above, for several pieces: half is the first piece, or half of it if it is the only one. */
#define MOVING_PIECES(kind, number, call)                                                                  \
    struct iovec first;                                                                                    \
    if (is_watched(number)) switch (next_call(kind)) {                                                     \
        case FAIL: return -1;                                                                              \
        case HALF: if (n > 0 && pieces[0].iov_len) {                                                       \
            first = pieces[0];                                                                             \
            if (n == 1 && first.iov_len > 1) first.iov_len = (first.iov_len + 1) / 2;                      \
            pieces = &first; n = 1;                                                                        \
        }                                                                                                  \
    }                                                                                                      \
    return call;

ssize_t readv(int number, const struct iovec *pieces, int n) { MOVING_PIECES(READ, number, REAL(readv)(number, pieces, n)) }
ssize_t preadv(int number, const struct iovec *pieces, int n, off_t at) { MOVING_PIECES(READ, number, REAL(preadv)(number, pieces, n, at)) }
ssize_t preadv64(int number, const struct iovec *pieces, int n, off64_t at) { MOVING_PIECES(READ, number, REAL(preadv64)(number, pieces, n, at)) }
ssize_t preadv2(int number, const struct iovec *pieces, int n, off_t at, int flags) { MOVING_PIECES(READ, number, REAL(preadv2)(number, pieces, n, at, flags)) }
ssize_t preadv64v2(int number, const struct iovec *pieces, int n, off64_t at, int flags) { MOVING_PIECES(READ, number, REAL(preadv64v2)(number, pieces, n, at, flags)) }
ssize_t writev(int number, const struct iovec *pieces, int n) { MOVING_PIECES(WRITE, number, REAL(writev)(number, pieces, n)) }

/* C's buffered files: a short count would be an error there, and interruption is the C library's business. */
static int fails(int kind, int number) {
    if (!is_watched(number) || (plan.half || plan.error == EINTR)) return 0;
    return next_call(kind) == FAIL;
}
size_t fwrite(const void *data, size_t size, size_t n, FILE *file) { return fails(WRITE, fileno(file)) ? 0 : REAL(fwrite)(data, size, n, file); }
size_t fread(void *room, size_t size, size_t n, FILE *file) { return fails(READ, fileno(file)) ? 0 : REAL(fread)(room, size, n, file); }
int fflush(FILE *file) { return file && __fpending(file) && fails(WRITE, fileno(file)) ? EOF : REAL(fflush)(file); }

int fsync(int number) { return is_watched(number) && next_call(FSYNC) == FAIL ? -1 : REAL(fsync)(number); }
int fdatasync(int number) { return is_watched(number) && next_call(FSYNC) == FAIL ? -1 : REAL(fdatasync)(number); }

#define RENAMING(from, to, call) return (is_below(AT_FDCWD, from) || is_below(AT_FDCWD, to)) && next_call(RENAME) == FAIL ? -1 : call;
int rename(const char *from, const char *to) { RENAMING(from, to, REAL(rename)(from, to)) }
int renameat(int a, const char *from, int b, const char *to) { RENAMING(from, to, REAL(renameat)(a, from, b, to)) }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { RENAMING(from, to, REAL(renameat2)(a, from, b, to, flags)) }

int close(int number) {
    int bad = is_watched(number) && next_call(CLOSE) == FAIL, error = errno;
    watch(number, 0);
    int done = REAL(close)(number);
    if (bad) errno = error;
    return bad ? -1 : done;
}

int fclose(FILE *file) {
    int number = fileno(file), bad = fails(CLOSE, number), error = errno;
    watch(number, 0);
    int done = REAL(fclose)(file);
    if (bad) errno = error;
    return bad ? EOF : done;
}

static int copied(int from, int to) { if (to >= 0) watch(to, is_watched(from)); return to; }
int dup(int from) { return copied(from, REAL(dup)(from)); }
int dup2(int from, int to) { return copied(from, REAL(dup2)(from, to)); }
int dup3(int from, int to, int flags) { return copied(from, REAL(dup3)(from, to, flags)); }

#define CONTROL(name)                                                                                      \
    va_list rest; va_start(rest, command); void *argument = va_arg(rest, void *); va_end(rest);            \
    int found = REAL(name)(number, command, argument);                                                     \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(number, found) : found;

int fcntl(int number, int command, ...) { CONTROL(fcntl) }
int fcntl64(int number, int command, ...) { CONTROL(fcntl64) }
