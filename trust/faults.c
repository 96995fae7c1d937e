// Lets the n-th change to files under one folder fail, as a full, broken or read-only disk would.
//
// Preloaded before the C library, it counts calls that create, write, flush, rename or remove; `fault_arm` says which of
// them fails, how, and whether all later ones fail too.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char root[PATH_MAX];
static long at = -1, seen = 0;
static int code = 0, lasting = 0;

void fault_arm(const char* folder, long number, int error, int all_later) {
  snprintf(root, sizeof root, "%s", folder);
  at = number, code = error, lasting = all_later, seen = 0;
}

long fault_seen(void) { return seen; }

static int below(const char* path) { return *root && path && !strncmp(path, root, strlen(root)); }

static int fd_below(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = *root ? readlink(link, path, sizeof path - 1) : -1;
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

// A full disk still lets files be removed.
static int fails(int removes) {
  const long number = seen++;
  if (at < 0 || number < at || (number > at && (!lasting || (removes && code == ENOSPC)))) return 0;
  errno = code;
  return 1;
}

#define REAL(name) \
  static __typeof__(name)* real; \
  if (!real) real = (__typeof__(name)*)dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                                    \
  int name(const char* path, int flags, ...) {                        \
    REAL(name);                                                       \
    va_list rest;                                                     \
    va_start(rest, flags);                                            \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                     \
    if ((flags & (O_WRONLY | O_RDWR)) && below(path) && fails(0)) return -1; \
    return real(path, flags, mode);                                   \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void* data, size_t size) {
  REAL(write);
  if (fd > 2 && fd_below(fd)) {
    if (fails(0)) return -1;
  }
  return real(fd, data, size);
}

int fsync(int fd) {
  REAL(fsync);
  return fd_below(fd) && fails(0) ? -1 : real(fd);
}

int rename(const char* from, const char* to) {
  REAL(rename);
  return below(to) && fails(0) ? -1 : real(from, to);
}

int renameat(int a, const char* from, int b, const char* to) {
  REAL(renameat);
  return below(to) && fails(0) ? -1 : real(a, from, b, to);
}

int mkdir(const char* path, mode_t mode) {
  REAL(mkdir);
  return below(path) && fails(0) ? -1 : real(path, mode);
}

int chmod(const char* path, mode_t mode) {
  REAL(chmod);
  return below(path) && fails(0) ? -1 : real(path, mode);
}

int unlink(const char* path) {
  REAL(unlink);
  return below(path) && fails(1) ? -1 : real(path);
}
