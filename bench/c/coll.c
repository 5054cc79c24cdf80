/* Small collectives: the slowest rank's time, since the root of a broadcast may run ahead. */
#include "bench.h"

#include <stdlib.h>

struct operation {
    const char *name;
    void (*run)(char *out, char *in);
};

static void run_barrier(char *out, char *in)
{
    (void)out, (void)in;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_broadcast(char *out, char *in)
{
    (void)in;
    MPI_Bcast(out, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void run_allreduce(char *out, char *in)
{
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_allgather(char *out, char *in)
{
    MPI_Allgather(out, COLLECTIVE_BYTES, MPI_BYTE, in, COLLECTIVE_BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

static void run_alltoall(char *out, char *in)
{
    MPI_Alltoall(out, COLLECTIVE_BYTES, MPI_BYTE, in, COLLECTIVE_BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

static const struct operation operations[] = {
    {"barrier", run_barrier},     {"broadcast_8", run_broadcast},     {"allreduce_8", run_allreduce},
    {"allgather_1024", run_allgather}, {"alltoall_1024", run_alltoall},
};

/* Seconds that `times` rounds took on the slowest rank; the same answer everywhere. */
static double batch_of(const struct operation *op, long times, char *out, char *in)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (long i = 0; i < times; i++)
        op->run(out, in);
    double took = now() - start, slowest = 0;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Microseconds per operation. */
void collectives(void)
{
    char *out = buffer((size_t)COLLECTIVE_BYTES * size, 0), *in = buffer((size_t)COLLECTIVE_BYTES * size, 0);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        double batch[BATCHES];
        long times = WARM_UP_ROUNDS;
        for (int phase = 0; phase < 2; phase++) {
            double took = batch_of(&operations[o], times, out, in);
            times = (long)(times * (BATCH_SECONDS / took)) + 1;
        }
        for (int b = 0; b < BATCHES; b++)
            batch[b] = batch_of(&operations[o], times, out, in) / times;
        if (rank == 0)
            result(operations[o].name, size, median(batch, BATCHES) * 1e6);
    }
    free(out);
    free(in);
}
