/* Two ranks: one-way time, and many messages in flight. */
#include "bench.h"

#include <stdlib.h>

/* One way of moving `bytes`, `times` over; returns the seconds it took here. */
typedef double (*round_fn)(size_t bytes, long times, char *out, char *in);

/* Rank 0 finds how many rounds fill a batch and tells rank 1 each time; 0 ends. */
static double measure(round_fn round, size_t bytes)
{
    char *out = buffer(bytes, 'a' + rank), *in = buffer(bytes, 0);
    double batch[BATCHES], answer = 0;
    long times = WARM_UP_ROUNDS;

    if (rank == 0) {
        for (;;) {
            MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
            double took = round(bytes, times, out, in);
            if (took >= CALIBRATION_SECONDS) {
                times = (long)(times * (BATCH_SECONDS / took)) + 1;
                break;
            }
            times *= 2;
        }
        for (int b = 0; b < BATCHES; b++) {
            MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
            batch[b] = round(bytes, times, out, in) / times;
        }
        times = 0;
        MPI_Send(&times, 1, MPI_LONG, 1, TAG_PLAN, MPI_COMM_WORLD);
        answer = median(batch, BATCHES);
    } else {
        for (;;) {
            MPI_Recv(&times, 1, MPI_LONG, 0, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (times == 0)
                break;
            round(bytes, times, out, in);
        }
        if (bytes && (in[0] != 'a' || in[bytes - 1] != 'a'))
            fail("the data did not arrive");
    }
    free(out);
    free(in);
    return answer;
}

static double ping_pong(size_t bytes, long times, char *out, char *in)
{
    double start = now();
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

/* Microseconds one way, by size. */
void latency(const struct sizes *sizes)
{
    if (size != 2)
        fail("latency needs two ranks");
    for (int i = 0; i < sizes->count; i++) {
        double seconds = measure(ping_pong, sizes->bytes[i]);
        if (rank == 0)
            result("latency", sizes->bytes[i], seconds / 2 * 1e6);
    }
}

/* A window of immediate sends against a window of immediate receives, then an answer. */
static double windows(size_t bytes, long times, char *out, char *in)
{
    MPI_Request requests[WINDOW_MESSAGES];
    char ack[4] = {0};
    double start = now();
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            for (int m = 0; m < WINDOW_MESSAGES; m++)
                MPI_Isend(out, bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[m]);
            MPI_Waitall(WINDOW_MESSAGES, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(ack, sizeof ack, MPI_BYTE, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int m = 0; m < WINDOW_MESSAGES; m++)
                MPI_Irecv(in, bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &requests[m]);
            MPI_Waitall(WINDOW_MESSAGES, requests, MPI_STATUSES_IGNORE);
            MPI_Send(ack, sizeof ack, MPI_BYTE, 0, TAG_ACK, MPI_COMM_WORLD);
        }
    }
    return now() - start;
}

/* Microseconds per message with 64 in flight, by size. */
void window(const struct sizes *sizes)
{
    if (size != 2)
        fail("window needs two ranks");
    for (int i = 0; i < sizes->count; i++) {
        double seconds = measure(windows, sizes->bytes[i]);
        if (rank == 0)
            result("window", sizes->bytes[i], seconds / WINDOW_MESSAGES * 1e6);
    }
}
