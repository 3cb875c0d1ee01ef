/* What touches files of one folder is refused from a certain call on: loaded before the C library (LD_PRELOAD), so that
 * it holds for Python, git and every other child. The file that REFUSE_CONTROL names is shared by all of them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITES = 1, REMOVALS = 2, READS = 4, LOCKS = 8, OPENS = 16 }; /* of the calls, in `kinds` */

struct control {
    atomic_long armed, number, kinds, at, last, count;
    char root[512], spared[128], met[512];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("REFUSE_CONTROL");
    int descriptor = name ? syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0) : -1;
    if (descriptor < 0)
        return;
    void *found = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    if (found != MAP_FAILED)
        control = found;
}

static int in_root(const char *path) {
    size_t length = strlen(control->root), whole = strlen(path), end = strlen(control->spared);
    if (strncmp(path, control->root, length) || (path[length] && path[length] != '/'))
        return 0;
    return !(end && whole >= end && !strcmp(path + whole - end, control->spared));
}

static int count(const char *path) {
    long number = atomic_fetch_add(&control->count, 1) + 1;
    if (number < control->at || number > control->last)
        return 0;
    if (!control->met[0])
        snprintf(control->met, sizeof control->met, "%s", path);
    errno = control->number;
    return 1;
}

static int refuse_descriptor(int kind, int descriptor) {
    char link[64], path[PATH_MAX];
    if (!control || !control->armed || !(control->kinds & kind))
        return 0;
    if (control->number == ENOENT || control->number == EACCES) /* what is open is there, and was allowed */
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return in_root(path) && count(path);
}

static int refuse(int kind, int folder, const char *name) {
    char path[PATH_MAX * 2], link[64];
    long length = 0;
    if (!control || !control->armed || !(control->kinds & kind) || !name)
        return 0;
    if (name[0] != '/') {
        if (folder == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
        if (length <= 0)
            return 0;
        path[length++] = '/';
    }
    snprintf(path + length, PATH_MAX, "%s", name);
    /* "a/../b" is outside of "a" */
    if (!strstr(path, "/../"))
        return in_root(path) && count(path);
    char real[PATH_MAX], parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    return realpath(parent, real) && in_root(real) && count(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int kind_of(int flags) { return OPENS | (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) ? WRITES : READS); }

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        return refuse(kind_of(flags), AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);                            \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                                                   \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = va_arg(list, mode_t);                                                                            \
        va_end(list);                                                                                                  \
        return refuse(kind_of(flags), folder, path) ? -1 : REAL(name)(folder, path, flags, mode);                      \
    }
OPENAT(openat)
OPENAT(openat64)

FILE *fopen(const char *path, const char *mode) {
    return refuse(kind_of(mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR), AT_FDCWD, path) ? NULL : REAL(fopen)(path, mode);
}
FILE *fopen64(const char *path, const char *mode) {
    return refuse(kind_of(mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR), AT_FDCWD, path) ? NULL : REAL(fopen64)(path, mode);
}
int stat64(const char *p, struct stat64 *s) { return refuse(READS, AT_FDCWD, p) ? -1 : REAL(stat64)(p, s); }
int lstat64(const char *p, struct stat64 *s) { return refuse(READS, AT_FDCWD, p) ? -1 : REAL(lstat64)(p, s); }
int fstatat64(int f, const char *p, struct stat64 *s, int n) { return refuse(READS, f, p) ? -1 : REAL(fstatat64)(f, p, s, n); }
DIR *opendir(const char *path) { return refuse(READS | OPENS, AT_FDCWD, path) ? NULL : REAL(opendir)(path); }
ssize_t read(int d, void *b, size_t n) { return refuse_descriptor(READS, d) ? -1 : REAL(read)(d, b, n); }
ssize_t write(int d, const void *b, size_t n) { return refuse_descriptor(WRITES, d) ? -1 : REAL(write)(d, b, n); }
ssize_t writev(int d, const struct iovec *v, int n) { return refuse_descriptor(WRITES, d) ? -1 : REAL(writev)(d, v, n); }
ssize_t pwrite64(int d, const void *b, size_t n, off64_t o) {
    return refuse_descriptor(WRITES, d) ? -1 : REAL(pwrite64)(d, b, n, o);
}
ssize_t sendfile64(int d, int s, off64_t *o, size_t n);
ssize_t sendfile64(int d, int s, off64_t *o, size_t n) {
    return refuse_descriptor(WRITES, d) ? -1 : REAL(sendfile64)(d, s, o, n);
}
ssize_t copy_file_range(int s, off64_t *so, int d, off64_t *o, size_t n, unsigned f) {
    return refuse_descriptor(WRITES, d) ? -1 : REAL(copy_file_range)(s, so, d, o, n, f);
}
int fsync(int d) { return refuse_descriptor(WRITES, d) ? -1 : REAL(fsync)(d); }
int ftruncate64(int d, off64_t n) { return refuse_descriptor(WRITES, d) ? -1 : REAL(ftruncate64)(d, n); }
int mkdir(const char *p, mode_t m) { return refuse(WRITES, AT_FDCWD, p) ? -1 : REAL(mkdir)(p, m); }
int mkdirat(int f, const char *p, mode_t m) { return refuse(WRITES, f, p) ? -1 : REAL(mkdirat)(f, p, m); }
int rename(const char *a, const char *b) { return refuse(WRITES, AT_FDCWD, b) ? -1 : REAL(rename)(a, b); }
int renameat(int x, const char *a, int y, const char *b) { return refuse(WRITES, y, b) ? -1 : REAL(renameat)(x, a, y, b); }
int link(const char *a, const char *b) { return refuse(WRITES, AT_FDCWD, b) ? -1 : REAL(link)(a, b); }
int linkat(int x, const char *a, int y, const char *b, int f) {
    return refuse(WRITES, y, b) ? -1 : REAL(linkat)(x, a, y, b, f);
}
int symlink(const char *a, const char *b) { return refuse(WRITES, AT_FDCWD, b) ? -1 : REAL(symlink)(a, b); }
int symlinkat(const char *a, int f, const char *b) { return refuse(WRITES, f, b) ? -1 : REAL(symlinkat)(a, f, b); }
int chmod(const char *p, mode_t m) { return refuse(WRITES, AT_FDCWD, p) ? -1 : REAL(chmod)(p, m); }
int unlink(const char *p) { return refuse(REMOVALS, AT_FDCWD, p) ? -1 : REAL(unlink)(p); }
int unlinkat(int f, const char *p, int n) { return refuse(REMOVALS, f, p) ? -1 : REAL(unlinkat)(f, p, n); }
int rmdir(const char *p) { return refuse(REMOVALS, AT_FDCWD, p) ? -1 : REAL(rmdir)(p); }
int flock(int d, int o) { return o & LOCK_UN || !refuse_descriptor(LOCKS, d) ? REAL(flock)(d, o) : -1; }
