/*
 * The C half of `cargo xtask bench`: one program that every C implementation
 * of MPI compiles. crates/mpi/examples/bench.rs is the Rust half. The two hold
 * the same loops, the same sizes, the same batches and the same statistics: a
 * change on one side is a change on both.
 *
 * Usage: bench CASE [SIZES]        SIZES is a comma-separated list of bytes
 * Output, from rank 0:             RESULT key value
 */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stddef.h>

/* How a figure is taken: the median of BATCHES batches of equal length. */
enum {
    BATCHES = 15,
    WINDOW_MESSAGES = 64,
    WARM_UP_ROUNDS = 10,
    MAX_SIZES = 32,
    UNEXPECTED_MESSAGES = 10000,
    UNEXPECTED_BYTES = 64,
    UNEXPECTED_ROUNDS = 3,
    OVERLAP_BYTES = 4 << 20,
    OVERLAP_ROUNDS = 15,
    OVERLAP_REDUCE_BYTES = 1 << 20,
    /* From here on one round is enough to warm up. */
    SLOW_COLLECTIVE_BYTES = 64 << 10,
    COLUMNS = 64
};
#define BATCH_SECONDS 0.005
#define CALIBRATION_SECONDS 0.002
#define IDLE_SECONDS 3.0
#define OVERLAP_COMPUTE_SECONDS 0.050

enum { TAG_DATA = 1, TAG_ACK = 2, TAG_PLAN = 3 };

struct sizes {
    int count;
    size_t bytes[MAX_SIZES];
};

/* util.c */
double now(void);
double cpu_time(void);
void nap(double seconds);
void spin(double seconds);
double median(double *values, int count);
char *buffer(size_t bytes, int fill);
void fail(const char *what);
void result(const char *key, long long variant, double value);

/* p2p.c: two ranks */
void latency(const struct sizes *sizes);
void window(const struct sizes *sizes);
/* layout.c: two ranks */
void layouts(const struct sizes *sizes);
/* work.c */
void idle(void);
void unexpected(void);
void overlap(void);
void ring(void);
void empty(void);
/* one_sided.c */
void one_sided(const struct sizes *sizes, int is_created);
void tickets(void);
void fences(void);
void computing(void);
/* coll.c */
void collectives(const struct sizes *sizes);
void overlap_allreduce(void);

extern int rank, size;

#endif
