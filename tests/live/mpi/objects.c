/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows and files, with six processes of which two die: each has agreements of its own. After
 * a failure those who are left make a window and a file of their own, and use them.
 */
#include "case.h"

struct objects {
    MPI_Win win;
    MPI_File file;
    int cell;
};

static void make(struct objects *objects, MPI_Comm comm, const char *path)
{
    must_mpi(MPI_Win_create(&objects->cell, sizeof(int), sizeof(int), MPI_INFO_NULL,
                            comm, &objects->win));
    must_mpi(MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                           &objects->file));
    must(COP_Win_attach(objects->win, comm));
    must(COP_File_attach(objects->file, comm));
}

/* Everyone writes its rank to its right, and to its place in the file. */
static void use(struct objects *objects, MPI_Comm comm)
{
    int rank, size, read = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    must_mpi(MPI_Win_fence(0, objects->win));
    must_mpi(
        MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, objects->win));
    must_mpi(MPI_Win_fence(0, objects->win));
    require(objects->cell == (rank + size - 1) % size);
    must_mpi(MPI_File_write_at(objects->file, rank * 4, &rank, 1, MPI_INT,
                               MPI_STATUS_IGNORE));
    must_mpi(MPI_Barrier(comm));
    must_mpi(MPI_File_read_at(objects->file, (rank + 1) % size * 4, &read, 1, MPI_INT,
                              MPI_STATUS_IGNORE));
    require(read == (rank + 1) % size);
}

static void expect(struct objects *objects, unsigned failed)
{
    MPI_Group group;
    must(COP_Win_validate_all(objects->win, &group));
    require(bits(group) == failed);
    must(COP_File_validate_all(objects->file, &group));
    require(bits(group) == failed);
    must(COP_Win_validate(objects->win, &group));
    require(bits(group) == failed);
    must(COP_File_validate(objects->file, &group));
    require(bits(group) == failed);
}

/* Nobody dies before all have seen what they know for themselves. Not by a barrier of MPI, in which others
 * may still wait for whoever has left it and dies. */
static void all_have_looked(MPI_Comm comm)
{
    int flag = 1;
    must(COP_Comm_agree(comm, &flag));
    require(flag == 1);
}

/* Each handle is refused where it does not belong. */
static void refuse(MPI_Comm comm)
{
    MPI_Comm less;
    MPI_Win win;
    MPI_Group group;
    int cell;
    MPI_Comm_dup(MPI_COMM_SELF, &less);
    must_mpi(MPI_Win_create(&cell, 4, 4, MPI_INFO_NULL, less, &win));
    require(COP_Win_attach(win, comm) == COP_EINVAL);
    require(COP_Win_attach(win, less) == COP_EINVAL);
    require(COP_Win_validate(win, &group) == COP_EINVAL);
    require(COP_Win_attach(MPI_WIN_NULL, comm) == COP_EINVAL);
    require(COP_File_attach(MPI_FILE_NULL, comm) == COP_EINVAL);
    require(COP_File_validate_all(MPI_FILE_NULL, &group) == COP_EINVAL);
    require(COP_Comm_validate(MPI_COMM_NULL, &group) == COP_EINVAL);
    MPI_Win_free(&win);
    MPI_Comm_free(&less);
}

int main(int argc, char **argv)
{
    struct objects first = {.cell = -1}, second = {.cell = -1};
    MPI_Comm less;
    int me = begin(&argc, &argv);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    make(&first, MPI_COMM_WORLD, argv[1]);
    use(&first, MPI_COMM_WORLD);
    refuse(MPI_COMM_WORLD);
    expect(&first, 0);
    all_have_looked(MPI_COMM_WORLD);
    if (me == 0)
        raise(SIGKILL);
    expect(&first, 1);
    must(COP_Comm_shrink(MPI_COMM_WORLD, &less));
    make(&second, less, argv[2]);
    use(&second, less);
    expect(&second, 0);
    all_have_looked(less);
    if (me == 4)
        raise(SIGKILL);
    expect(&second, 1 << 4);
    expect(&first, 1 | 1 << 4);
    must(COP_Win_detach(first.win));
    require(COP_Win_detach(first.win) == COP_EINVAL);
    must(COP_File_detach(first.file));
    printf("%d did\n", me);
    COP_Comm_exit(0);
}
