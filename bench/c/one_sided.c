/* One-sided communication: two ranks, a counter of all, fences, a target that computes. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = (1 << 20) / 8, DRAWS = 4000, FENCES = 2000, COMPUTE_ROUNDS = 5, ROUNDS = 5 };

typedef void (*step_fn)(double *data, int words, MPI_Win win);

static void put(double *data, int words, MPI_Win win)
{
    MPI_Put(data, words, MPI_DOUBLE, 1, 0, words, MPI_DOUBLE, win);
    MPI_Win_flush(1, win);
}

static void get(double *data, int words, MPI_Win win)
{
    MPI_Get(data, words, MPI_DOUBLE, 1, 0, words, MPI_DOUBLE, win);
    MPI_Win_flush(1, win);
}

static void accumulate(double *data, int words, MPI_Win win)
{
    MPI_Accumulate(data, words, MPI_DOUBLE, 1, 0, words, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void fetch(double *data, int words, MPI_Win win)
{
    double one = 1;
    (void)words;
    MPI_Fetch_and_op(&one, data, MPI_DOUBLE, 1, 0, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static double round_of(step_fn step, double *data, int words, MPI_Win win, long times)
{
    double start = now();
    for (long i = 0; i < times; i++)
        step(data, words, win);
    return now() - start;
}

static double batches(step_fn step, double *data, int words, MPI_Win win)
{
    double batch[BATCHES];
    long times = WARM_UP_ROUNDS;
    for (;;) {
        double took = round_of(step, data, words, win, times);
        if (took >= CALIBRATION_SECONDS) {
            times = (long)(times * (BATCH_SECONDS / took)) + 1;
            break;
        }
        times *= 2;
    }
    for (int b = 0; b < BATCHES; b++)
        batch[b] = round_of(step, data, words, win, times) / times;
    return median(batch, BATCHES);
}

static MPI_Win allocate(MPI_Aint bytes, int unit)
{
    void *base;
    MPI_Win win;
    MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    return win;
}

/* A window on memory that was there before, which ranks of one machine cannot share behind the transport's back. */
static MPI_Win created(MPI_Aint bytes, int unit)
{
    MPI_Win win;
    MPI_Win_create(calloc(1, bytes), bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    return win;
}

static void finish(MPI_Win win, int is_created)
{
    void *base;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    MPI_Win_free(&win);
    if (is_created)
        free(base);
}

/* Microseconds for an operation and its flush, by size. */
void one_sided(const struct sizes *sizes, int is_created)
{
    static const struct { const char *name; step_fn step; } steps[] = {
        {"put", put}, {"get", get}, {"acc", accumulate}, {"fop", fetch}};
    MPI_Win win = (is_created ? created : allocate)(WORDS_MAX * sizeof(double), sizeof(double));
    int word = 0;
    if (size != 2)
        fail("one-sided needs two ranks");
    if (rank == 0) {
        double *data = (double *)buffer(WORDS_MAX * sizeof(double), 0);
        for (int i = 0; i < WORDS_MAX; i++)
            data[i] = 1;
        MPI_Win_lock_all(0, win);
        /* Small before large: what one size changes must not be felt by another. */
        for (int s = 0; s < 4; s++)
            for (int i = 0; i < sizes->count; i++)
                if (sizes->bytes[i] == 8)
                    result(steps[s].name, 8, batches(steps[s].step, data, 1, win) * 1e6);
        for (int s = 0; s < 3; s++)
            for (int i = 0; i < sizes->count; i++)
                if (sizes->bytes[i] > 8)
                    result(steps[s].name, sizes->bytes[i],
                           batches(steps[s].step, data, sizes->bytes[i] / sizeof(double), win) * 1e6);
        MPI_Win_unlock_all(win);
        MPI_Send(&word, 1, MPI_INT, 1, TAG_PLAN, MPI_COMM_WORLD);
        free(data);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    finish(win, is_created);
}

/* Microseconds per ticket when all ranks draw from one counter. */
void tickets(void)
{
    MPI_Win win = allocate(8, 8);
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < DRAWS; i++) {
            unsigned long long one = 1, old;
            MPI_Fetch_and_op(&one, &old, MPI_UNSIGNED_LONG_LONG, 0, 0, MPI_SUM, win);
            MPI_Win_flush(0, win);
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        times[r] = (now() - start) / ((double)DRAWS * size);
    }
    if (rank == 0)
        result("tickets", -1, median(times, ROUNDS) * 1e6);
    MPI_Win_free(&win);
}

/* Microseconds per fence. */
void fences(void)
{
    MPI_Win win = allocate(64, 1);
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (int i = 0; i < FENCES; i++)
            MPI_Win_fence(0, win);
        times[r] = (now() - start) / FENCES;
    }
    if (rank == 0)
        result("fence", -1, median(times, ROUNDS) * 1e6);
    MPI_Win_free(&win);
}

/* Microseconds for a lock, a put and an unlock while the target computes. */
void computing(void)
{
    MPI_Win win = created(64, 8);
    double times[COMPUTE_ROUNDS], value = 2;
    for (int r = 0; r < COMPUTE_ROUNDS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            nap(0.020); /* The target is computing by then. */
            double start = now();
            MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
            MPI_Put(&value, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, win);
            MPI_Win_flush(1, win);
            MPI_Win_unlock(1, win);
            times[r] = now() - start;
        } else {
            spin(0.200);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        result("computing", -1, median(times, COMPUTE_ROUNDS) * 1e6);
    finish(win, 1);
}
