/* What surrounds a message: waiting, queues, overlap, a ring, start and end. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cores' worth of processor time that a rank spends blocked in a receive. */
void idle(void)
{
    char byte = 0;
    double used[2] = {0, 0};
    if (size != 2)
        fail("idle needs two ranks");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        nap(IDLE_SECONDS);
        MPI_Send(&byte, 1, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(used, 2, MPI_DOUBLE, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        result("idle", -1, used[0] / used[1]);
    } else {
        double cpu = cpu_time(), start = now();
        MPI_Recv(&byte, 1, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        used[1] = now() - start;
        used[0] = cpu_time() - cpu;
        MPI_Send(used, 2, MPI_DOUBLE, 0, TAG_ACK, MPI_COMM_WORLD);
    }
}

/* Microseconds per message to take a full unexpected queue in the worst order. */
void unexpected(void)
{
    char message[UNEXPECTED_BYTES];
    double took[UNEXPECTED_ROUNDS];
    if (size != 2)
        fail("unexpected needs two ranks");
    memset(message, 'u', sizeof message);
    for (int r = 0; r < UNEXPECTED_ROUNDS; r++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            /* The last tag goes last and is taken first: by then all have arrived. */
            for (int tag = 0; tag <= UNEXPECTED_MESSAGES; tag++)
                MPI_Send(message, sizeof message, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
            MPI_Recv(&took[r], 1, MPI_DOUBLE, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(message, sizeof message, MPI_BYTE, 0, UNEXPECTED_MESSAGES, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double start = now();
            for (int tag = UNEXPECTED_MESSAGES - 1; tag >= 0; tag--)
                MPI_Recv(message, sizeof message, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            took[r] = now() - start;
            MPI_Send(&took[r], 1, MPI_DOUBLE, 0, TAG_ACK, MPI_COMM_WORLD);
        }
    }
    if (rank == 0)
        result("unexpected", -1, median(took, UNEXPECTED_ROUNDS) / UNEXPECTED_MESSAGES * 1e6);
}

/* Seconds left in the wait of a large immediate send after `compute` seconds of work. */
static double send_and_wait(char *data, double compute)
{
    char ready;
    MPI_Request request;
    double start;
    MPI_Recv(&ready, 1, MPI_BYTE, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (compute == 0)
        start = now();
    MPI_Isend(data, OVERLAP_BYTES, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &request);
    if (compute != 0) {
        spin(compute);
        start = now();
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return now() - start;
}

/* The wait after 50 ms of work, as a share of the same transfer without work. */
void overlap(void)
{
    char *data = buffer(OVERLAP_BYTES, 'o'), ready = 0;
    double blocking[OVERLAP_ROUNDS], left[OVERLAP_ROUNDS];
    if (size != 2)
        fail("overlap needs two ranks");
    for (int r = 0; r < 2 * OVERLAP_ROUNDS; r++) {
        if (rank == 0) {
            if (r < OVERLAP_ROUNDS)
                blocking[r] = send_and_wait(data, 0);
            else
                left[r - OVERLAP_ROUNDS] = send_and_wait(data, OVERLAP_COMPUTE_SECONDS);
        } else {
            MPI_Request request;
            MPI_Irecv(data, OVERLAP_BYTES, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &request);
            MPI_Send(&ready, 1, MPI_BYTE, 0, TAG_ACK, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    if (rank == 0) {
        double whole = median(blocking, OVERLAP_ROUNDS), rest = median(left, OVERLAP_ROUNDS);
        result("overlap", -1, rest / whole);
        result("overlap_blocking_us", -1, whole * 1e6);
        result("overlap_left_us", -1, rest * 1e6);
    }
    free(data);
}

static double laps(long times)
{
    double token = 0;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double start = now();
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_DOUBLE, next, TAG_DATA, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_DOUBLE, before, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_DOUBLE, before, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += 1;
            MPI_Send(&token, 1, MPI_DOUBLE, next, TAG_DATA, MPI_COMM_WORLD);
        }
    }
    if (rank == 0 && token != (double)times * (size - 1))
        fail("the token was not counted by every rank");
    return now() - start;
}

/* Microseconds per hop of a token of 8 bytes around all ranks. */
void ring(void)
{
    double batch[BATCHES];
    long times = WARM_UP_ROUNDS;
    if (size < 2)
        fail("ring needs two ranks or more");
    /* The plan travels around the ring too: the number of laps, and 0 at the end. */
    for (int phase = 0; phase < BATCHES + 2; phase++) {
        if (rank != 0)
            MPI_Recv(&times, 1, MPI_LONG, rank - 1, TAG_PLAN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank != size - 1)
            MPI_Send(&times, 1, MPI_LONG, rank + 1, TAG_PLAN, MPI_COMM_WORLD);
        double took = laps(times);
        if (phase >= 2)
            batch[phase - 2] = took / times;
        else if (rank == 0)
            times = (long)(times * (4 * BATCH_SECONDS / took)) + 1;
    }
    if (rank == 0)
        result("ring", size, median(batch, BATCHES) / size * 1e6);
}

/* The largest resident set so far, in KiB. */
static double peak_resident_kib(void)
{
    char line[256];
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

/* Starts, meets once, ends; the caller takes the time. Every rank tells its memory. */
void empty(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    result("rss_kib", rank, peak_resident_kib());
}
