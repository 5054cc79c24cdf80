/* Reads the command line, starts MPI, runs one case. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank, size;

static struct sizes parse(const char *list)
{
    struct sizes sizes = {0};
    while (list && *list && sizes.count < MAX_SIZES) {
        char *end;
        sizes.bytes[sizes.count++] = strtoull(list, &end, 10);
        list = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != '\0')
            fail("SIZES must be numbers with commas between them");
    }
    return sizes;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    const char *name = argc > 1 ? argv[1] : "";
    struct sizes sizes = parse(argc > 2 ? argv[2] : NULL);

    if (!strcmp(name, "latency"))
        latency(&sizes);
    else if (!strcmp(name, "window"))
        window(&sizes);
    else if (!strcmp(name, "layouts"))
        layouts(&sizes);
    else if (!strcmp(name, "idle"))
        idle();
    else if (!strcmp(name, "unexpected"))
        unexpected();
    else if (!strcmp(name, "overlap"))
        overlap();
    else if (!strcmp(name, "ring"))
        ring();
    else if (!strcmp(name, "empty"))
        empty();
    else if (!strcmp(name, "one-sided"))
        one_sided(&sizes, 0);
    else if (!strcmp(name, "one-sided-created"))
        one_sided(&sizes, 1);
    else if (!strcmp(name, "tickets"))
        tickets();
    else if (!strcmp(name, "fences"))
        fences();
    else if (!strcmp(name, "computing"))
        computing();
    else if (!strcmp(name, "collectives"))
        collectives(&sizes);
    else if (!strcmp(name, "overlap-allreduce"))
        overlap_allreduce();
    else
        fail("usage: bench latency|window|layouts|idle|unexpected|overlap|ring|empty|collectives|overlap-allreduce|one-sided|one-sided-created|tickets|fences|computing [SIZES]");

    MPI_Finalize();
    return 0;
}
