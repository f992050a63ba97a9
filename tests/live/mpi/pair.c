/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two jobs at the same time. pair lose FILE: rank 1 dies, the others agree on it, and make FILE.
 * pair watch FILE: until FILE is there, and once more, nobody has failed.
 */
#include "case.h"

static unsigned failed_agreed(void)
{
    MPI_Group group;
    must(COP_Comm_validate_all(MPI_COMM_WORLD, &group));
    return bits(group);
}

static void lose(int me, const char *path)
{
    if (me == 1)
        raise(SIGKILL);
    require(failed_agreed() == 1 << 1);
    FILE *file = me == 0 ? fopen(path, "w") : NULL;
    require(me != 0 || (file != NULL && fclose(file) == 0));
}

static void watch(const char *path)
{
    int others_live = 1;
    while (others_live) {
        others_live = access(path, F_OK) != 0;
        must(COP_Comm_agree(MPI_COMM_WORLD, &others_live));
    }
    require(failed_agreed() == 0);
}

int main(int argc, char **argv)
{
    int me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    if (strcmp(argv[1], "lose") == 0)
        lose(me, argv[2]);
    else
        watch(argv[2]);
    printf("%s %d did\n", argv[1], me);
    COP_Comm_exit(0);
}
