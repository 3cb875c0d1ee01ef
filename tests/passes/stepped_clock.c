/* Sets the clock of one process: its time of day is STEP_BY seconds ahead once STEP_AFTER seconds are over. The kernel's
   clock stays, so that deadlines on that clock are handed over without the step. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

typedef int (*gettime_t)(clockid_t, struct timespec *);
static gettime_t kernel;
static double begun, after;
static long by;

static double count(void) {
  struct timespec now;
  kernel(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static __attribute__((constructor)) void start(void) {
  if (kernel) return;
  kernel = (gettime_t)dlsym(RTLD_NEXT, "clock_gettime");
  begun = count();
  after = atof(getenv("STEP_AFTER"));
  by = atol(getenv("STEP_BY"));
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  start();
  int result = kernel(clock, now);
  if (clock == CLOCK_REALTIME && count() - begun > after) now->tv_sec += by;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec found;
  (void)zone;
  int result = clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return result;
}

static struct timespec unstep(const struct timespec *deadline) {
  struct timespec found = *deadline, now;
  kernel(CLOCK_REALTIME, &now);
  if (found.tv_sec - now.tv_sec > by / 2) found.tv_sec -= by;
  return found;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
  int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
      (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlvsym(
          RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec found = unstep(deadline);
  return wait(condition, mutex, &found);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict deadline) {
  int (*wait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
      (int (*)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))dlsym(
          RTLD_NEXT, "pthread_cond_clockwait");
  struct timespec found = clock == CLOCK_REALTIME ? unstep(deadline) : *deadline;
  return wait(condition, mutex, clock, &found);
}
