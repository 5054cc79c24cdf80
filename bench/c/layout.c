/* Two ranks: one-way time of data with gaps. */
#include "bench.h"

#include <stdlib.h>

/* A matrix of doubles with 64 columns; its first column goes. */
static MPI_Datatype column(size_t bytes)
{
    MPI_Datatype type;
    MPI_Type_vector(bytes / sizeof(double), 1, COLUMNS, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

struct particle {
    double place;
    int cell;
    double speed[3];
};

/* An array of structs with a hole after `cell`. */
static MPI_Datatype particles(void)
{
    int lengths[3] = {1, 1, 3};
    MPI_Aint at[3] = {offsetof(struct particle, place), offsetof(struct particle, cell), offsetof(struct particle, speed)};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_DOUBLE}, plain, type;
    MPI_Type_create_struct(3, lengths, at, types, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&plain);
    return type;
}

static double ping_pong(MPI_Datatype type, int count, long times, char *out, char *in)
{
    double start = now();
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(out, count, type, 1, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(in, count, type, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, count, type, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, count, type, 0, TAG_DATA, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

/* As `measure` of p2p.c, over `memory` bytes on each side. */
static double measure(MPI_Datatype type, int count, size_t memory)
{
    char *out = buffer(memory, 'a' + rank), *in = buffer(memory, 0);
    double batch[BATCHES], answer = 0;
    long times = WARM_UP_ROUNDS;

    if (rank == 0) {
        for (;;) {
            MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
            double took = ping_pong(type, count, times, out, in);
            if (took >= CALIBRATION_SECONDS) {
                times = (long)(times * (BATCH_SECONDS / took)) + 1;
                break;
            }
            times *= 2;
        }
        for (int b = 0; b < BATCHES; b++) {
            MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
            batch[b] = ping_pong(type, count, times, out, in) / times;
        }
        times = 0;
        MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
        answer = median(batch, BATCHES);
    } else {
        for (;;) {
            MPI_Recv(&times, 1, MPI_LONG, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (times == 0)
                break;
            ping_pong(type, count, times, out, in);
        }
        if (in[0] != 'a')
            fail("the data did not arrive");
    }
    free(out);
    free(in);
    return answer;
}

/* Microseconds one way, by bytes of data (not of memory). */
void layouts(const struct sizes *sizes)
{
    if (size != 2)
        fail("layouts needs two ranks");
    for (int i = 0; i < sizes->count; i++) {
        size_t bytes = sizes->bytes[i];
        MPI_Datatype type = column(bytes);
        double seconds = measure(type, 1, bytes * COLUMNS);
        MPI_Type_free(&type);
        if (rank == 0)
            result("column", bytes, seconds / 2 * 1e6);

        type = particles();
        int each, count;
        MPI_Type_size(type, &each);
        count = bytes / each;
        seconds = measure(type, count, count * sizeof(struct particle));
        MPI_Type_free(&type);
        if (rank == 0)
            result("particles", bytes, seconds / 2 * 1e6);
    }
}
