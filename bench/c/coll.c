/* Collectives: the slowest rank's time, since the root of a broadcast may run ahead. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct operation {
    const char *name;
    /* Bytes of the vector, or of each rank's block. */
    size_t bytes;
    void (*run)(size_t bytes, char *out, char *in);
    /* Buffers hold so many blocks for each rank. */
    int blocks;
};

static void run_barrier(size_t bytes, char *out, char *in)
{
    (void)bytes, (void)out, (void)in;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_broadcast(size_t bytes, char *out, char *in)
{
    (void)in;
    MPI_Bcast(out, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* No root runs ahead. */
static void run_met_broadcast(size_t bytes, char *out, char *in)
{
    (void)in;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(out, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void run_allreduce(size_t bytes, char *out, char *in)
{
    MPI_Allreduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_reduce(size_t bytes, char *out, char *in)
{
    MPI_Reduce(out, in, (int)(bytes / sizeof(double)), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void run_allgather(size_t bytes, char *out, char *in)
{
    MPI_Allgather(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void run_alltoall(size_t bytes, char *out, char *in)
{
    MPI_Alltoall(out, (int)bytes, MPI_BYTE, in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static const struct operation operations[] = {
    {"barrier", 0, run_barrier, 0},
    {"broadcast", 8, run_broadcast, 0},
    {"broadcast", 1 << 10, run_broadcast, 0},
    {"broadcast", 64 << 10, run_broadcast, 0},
    {"broadcast", 1 << 20, run_broadcast, 0},
    {"broadcast", 8 << 20, run_broadcast, 0},
    {"met_broadcast", 1 << 10, run_met_broadcast, 0},
    {"allreduce", 8, run_allreduce, 0},
    {"allreduce", 1 << 10, run_allreduce, 0},
    {"allreduce", 64 << 10, run_allreduce, 0},
    {"allreduce", 1 << 20, run_allreduce, 0},
    {"allreduce", 8 << 20, run_allreduce, 0},
    {"reduce", 64 << 10, run_reduce, 0},
    {"allgather", 1 << 10, run_allgather, 1},
    {"allgather", 64 << 10, run_allgather, 1},
    {"alltoall", 1 << 10, run_alltoall, 1},
    {"alltoall", 64 << 10, run_alltoall, 1},
};

/* Seconds that `times` rounds took on the slowest rank; the same answer everywhere. */
static double batch_of(const struct operation *op, long times, char *out, char *in)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (long i = 0; i < times; i++)
        op->run(op->bytes, out, in);
    double took = now() - start, slowest = 0;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Microseconds per operation, of those with a size of the list; of all without a list. */
void collectives(const struct sizes *sizes)
{
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        const struct operation *op = &operations[o];
        int wanted = sizes->count == 0;
        for (int s = 0; s < sizes->count; s++)
            wanted |= sizes->bytes[s] == op->bytes;
        if (!wanted)
            continue;
        size_t room = (op->bytes ? op->bytes : 1) * (size_t)(op->blocks ? size : 1);
        char *out = buffer(room, 0), *in = buffer(room, 0), key[64];
        double batch[BATCHES];
        long times = op->bytes < SLOW_COLLECTIVE_BYTES ? WARM_UP_ROUNDS : 1;
        for (int phase = 0; phase < 2; phase++) {
            double took = batch_of(op, times, out, in);
            times = (long)(times * (BATCH_SECONDS / took)) + 1;
        }
        for (int b = 0; b < BATCHES; b++)
            batch[b] = batch_of(op, times, out, in) / times;
        if (op->bytes)
            snprintf(key, sizeof key, "%s_%zu", op->name, op->bytes);
        else
            snprintf(key, sizeof key, "%s", op->name);
        if (rank == 0)
            result(key, size, median(batch, BATCHES) * 1e6);
        free(out);
        free(in);
    }
}

/* Seconds left in the wait of a 1 MiB immediate allreduce after `compute` seconds of work on every rank. */
static double reduce_and_wait(char *out, char *in, double compute)
{
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    MPI_Iallreduce(out, in, OVERLAP_REDUCE_BYTES / sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    if (compute != 0) {
        spin(compute);
        start = now();
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double took = now() - start, slowest = 0;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* The wait after 50 ms of work, as a share of the same allreduce without work. */
void overlap_allreduce(void)
{
    char *out = buffer(OVERLAP_REDUCE_BYTES, 0), *in = buffer(OVERLAP_REDUCE_BYTES, 0);
    double blocking[OVERLAP_ROUNDS], left[OVERLAP_ROUNDS];
    for (int r = 0; r < OVERLAP_ROUNDS; r++)
        blocking[r] = reduce_and_wait(out, in, 0);
    for (int r = 0; r < OVERLAP_ROUNDS; r++)
        left[r] = reduce_and_wait(out, in, OVERLAP_COMPUTE_SECONDS);
    if (rank == 0) {
        double whole = median(blocking, OVERLAP_ROUNDS), rest = median(left, OVERLAP_ROUNDS);
        result("overlap_allreduce", -1, rest / whole);
        result("overlap_allreduce_blocking_us", -1, whole * 1e6);
        result("overlap_allreduce_left_us", -1, rest * 1e6);
    }
    free(out);
    free(in);
}
