// Preloaded into a program under test: makes system calls fail, or wait, as the file $FAULTS says.
//
// Each line of the file is `CALL ERRNO PATTERN`. CALL is open, read, stat, readdir or fsync. A PATTERN that ends in `/`
// matches every path that contains it, another one the end of a path. ERRNO 0 makes the call wait for as long as the
// line is there; $FAULTS.reached shows that it waits.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int matches(const char *path, const char *pattern) {
    size_t whole = strlen(path), part = strlen(pattern);
    if (part > 0 && pattern[part - 1] == '/')
        return strstr(path, pattern) != NULL;
    return whole >= part && strcmp(path + whole - part, pattern) == 0 &&
           (whole == part || path[whole - part - 1] == '/');
}

// The errno of the rule for this call; -1 without one. By raw system calls, which are not intercepted.
static int rule(const char *call, const char *path) {
    const char *file = getenv("FAULTS");
    int fd = file == NULL ? -1 : syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    char text[4096];
    long length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[length < 0 ? 0 : length] = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char named[16], pattern[1024];
        int number;
        if (sscanf(line, "%15s %d %1023s", named, &number, pattern) == 3 &&
            strcmp(named, call) == 0 && matches(path, pattern))
            return number;
    }
    return -1;
}

// Does this call fail? A call that waits does not.
static int fails_at(const char *call, const char *path) {
    int before = errno, number = rule(call, path);
    if (number == 0) {
        char reached[1024];
        snprintf(reached, sizeof reached, "%s.reached", getenv("FAULTS"));
        syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, reached, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (rule(call, path) == 0)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    errno = number > 0 ? number : before;
    return number > 0;
}

static int fails_below(const char *call, int fd, const char *rest) {
    char link[64], path[4096];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    errno = before;
    path[length < 0 ? 0 : length] = 0;
    strncat(path, rest, sizeof path - strlen(path) - 1);
    return fails_at(call, path);
}

static int fails_open(const char *call, int fd) {
    return fails_below(call, fd, "");
}

// A path may begin at an open file, as those in the tree of another machine do.
static int fails(const char *call, const char *path) {
    int fd, length = 0;
    if (sscanf(path, "/proc/self/fd/%d%n", &fd, &length) == 1)
        return fails_below(call, fd, path + length);
    return fails_at(call, path);
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = mode_of(flags, rest);                                                        \
        va_end(rest);                                                                              \
        return fails("open", path) ? -1 : NEXT(name)(path, flags, mode);                           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int at, const char *path, int flags, ...) {                                           \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = mode_of(flags, rest);                                                        \
        va_end(rest);                                                                              \
        return fails("open", path) ? -1 : NEXT(name)(at, path, flags, mode);                       \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t read(int fd, void *into, size_t size) {
    return fails_open("read", fd) ? -1 : NEXT(read)(fd, into, size);
}

int statx(int at, const char *path, int flags, unsigned mask, struct statx *into) {
    int failed = *path == 0 ? fails_open("stat", at) : fails("stat", path);
    return failed ? -1 : NEXT(statx)(at, path, flags, mask, into);
}

#define STAT(name, type)                                                                           \
    int name(const char *path, struct type *into) {                                                \
        return fails("stat", path) ? -1 : NEXT(name)(path, into);                                  \
    }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

#define FSTAT(name, type)                                                                          \
    int name(int fd, struct type *into) {                                                          \
        return fails_open("stat", fd) ? -1 : NEXT(name)(fd, into);                                 \
    }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

#define FSTATAT(name, type)                                                                        \
    int name(int at, const char *path, struct type *into, int flags) {                             \
        return fails("stat", path) ? -1 : NEXT(name)(at, path, into, flags);                       \
    }
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

DIR *opendir(const char *path) {
    return fails("open", path) ? NULL : NEXT(opendir)(path);
}

#define READDIR(name, type)                                                                        \
    struct type *name(DIR *directory) {                                                            \
        return fails_open("readdir", dirfd(directory)) ? NULL : NEXT(name)(directory);             \
    }
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

#define SYNC(name)                                                                                 \
    int name(int fd) { return fails_open("fsync", fd) ? -1 : NEXT(name)(fd); }
SYNC(fsync)
SYNC(fdatasync)
