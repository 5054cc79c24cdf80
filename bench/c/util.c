/* Clocks, buffers, the median, and the one way out. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Processor time of this process, user and system, all its threads. */
double cpu_time(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* Computes: keeps the processor busy and calls nothing of MPI. */
void spin(double seconds)
{
    double end = now() + seconds;
    while (now() < end)
        ;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

/* Page-aligned, and touched, so that no page fault falls into a measurement. */
char *buffer(size_t bytes, int fill)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes ? bytes : 1))
        fail("out of memory");
    memset(p, fill, bytes);
    return p;
}

void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

void result(const char *key, long long variant, double value)
{
    if (variant >= 0)
        printf("RESULT %s/%lld %.6f\n", key, variant, value);
    else
        printf("RESULT %s %.6f\n", key, value);
    fflush(stdout);
}
