/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program may get wrong is told to it, and ends nobody: misuse HOW.
 *   attached  what cannot be attached; and NULL where something is to be written
 *   freed     communicators and windows are given back to MPI while they are attached
 *   first     the same of the first one
 *   input     the descriptor of the standard input is free when it attaches
 *   over      MPI is finalized while something is attached, and the program ends after that
 */
#include "case.h"

static void attach_oddly(int me)
{
    MPI_Comm half, both, work = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 1;
    must_mpi(MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half));
    must_mpi(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - me % 2, 5, &both));
    require(COP_Comm_attach(both) == COP_EINVAL);
    require(COP_Comm_attach_spares(both, 0, &work) == COP_EINVAL);
    require(COP_Comm_attach_spares(MPI_COMM_WORLD, 0, NULL) == COP_EINVAL);
    require(COP_Comm_attach(MPI_COMM_NULL) == COP_EINVAL);
    must(COP_Comm_attach(MPI_COMM_WORLD));
    require(COP_Comm_attach(MPI_COMM_WORLD) == COP_EEXIST);
    require(COP_Comm_attach(both) == COP_EINVAL);
    require(COP_Comm_agree(both, &flag) == COP_EINVAL);
    require(COP_Comm_waitall(MPI_COMM_WORLD, -1, &request) == COP_EINVAL);
    must(COP_Comm_waitall(MPI_COMM_WORLD, 0, NULL));
    must(COP_Comm_attach(MPI_COMM_SELF));
    must(COP_Comm_agree(MPI_COMM_SELF, &flag));
    must(COP_Comm_detach(MPI_COMM_SELF));
}

static void say_nowhere(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    int flag = 1;
    require(COP_Comm_validate(world, NULL) == COP_EINVAL);
    require(COP_Comm_agree(world, NULL) == COP_EINVAL);
    require(COP_Comm_agree_words(world, NULL, 1, MPI_MIN) == COP_EINVAL);
    require(COP_Comm_agree_acked(world, NULL) == COP_EINVAL);
    require(COP_Comm_shrink(world, NULL) == COP_EINVAL);
    require(COP_Comm_replace(world, NULL) == COP_EINVAL);
    require(COP_Comm_is_revoked(world, NULL) == COP_EINVAL);
    require(COP_Comm_waitall(world, 1, NULL) == COP_EINVAL);
    require(COP_Comm_failure_get_acked(world, NULL) == COP_EINVAL);
    require(COP_Comm_spare_wait(NULL, &flag) == COP_EINVAL);
    require(COP_Comm_free(NULL) == COP_EINVAL);
    must(COP_Comm_validate_all(world, NULL));
}

/* Nothing went wrong: COP_Comm_error has nothing to say. */
static void have_nothing_to_say(void)
{
    MPI_Comm comm;
    int flag = 1;
    must_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    must(COP_Comm_attach(comm));
    must(COP_Comm_agree_acked(comm, &flag));
    require(strcmp(COP_Comm_error(), "") == 0);
    must(COP_Comm_free(&comm));
}

/* The next one may have the same handle, and has it where memory is given out again at once: it is
 * another one all the same. */
static void free_attached(void)
{
    MPI_Comm comm, next;
    MPI_Group failed;
    int flag = 1;
    must(COP_Comm_attach(MPI_COMM_WORLD));
    must_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    must(COP_Comm_attach(comm));
    MPI_Comm handle = comm;
    must_mpi(MPI_Comm_free(&comm));
    require(COP_Comm_validate(handle, &failed) == COP_EINVAL);
    must_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &next));
    require(COP_Comm_validate(next, &failed) == COP_EINVAL);
    require(COP_Comm_detach(next) == COP_EINVAL);
    must(COP_Comm_attach(next));
    must(COP_Comm_agree(next, &flag));
    must(COP_Comm_free(&next));
}

static void free_window(void)
{
    MPI_Win win;
    MPI_Group failed;
    static int word;
    must_mpi(
        MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    must(COP_Win_attach(win, MPI_COMM_WORLD));
    require(COP_Win_validate(win, NULL) == COP_EINVAL);
    MPI_Win handle = win;
    must_mpi(MPI_Win_free(&win));
    require(COP_Win_validate(handle, &failed) == COP_EINVAL);
}

static void free_first(void)
{
    MPI_Comm first, work, next, handle;
    int flag = 1;
    must_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    must(COP_Comm_attach_spares(first, 0, &work));
    handle = first;
    must_mpi(MPI_Comm_free(&first));
    require(COP_Comm_agree(handle, &flag) == COP_EINVAL);
    must(COP_Comm_agree(work, &flag));
    require(COP_Comm_replace(work, &next) == COP_ESTATE);
    must(COP_Comm_shrink(work, &next));
}

int main(int argc, char **argv)
{
    int flag = 1;
    const char *how = argv[1];
    require(COP_Comm_attach(MPI_COMM_WORLD) == COP_ESTATE);
    int me = begin(&argc, &argv);
    if (strcmp(how, "attached") == 0) {
        attach_oddly(me);
        say_nowhere();
        have_nothing_to_say();
    } else if (strcmp(how, "freed") == 0) {
        free_attached();
        free_window();
    } else if (strcmp(how, "first") == 0) {
        free_first();
    } else if (strcmp(how, "input") == 0) {
        require(close(STDIN_FILENO) == 0);
        must(COP_Comm_attach(MPI_COMM_WORLD));
    } else {
        must(COP_Comm_attach(MPI_COMM_WORLD));
        must(COP_Comm_attach(MPI_COMM_SELF));
        must_mpi(MPI_Finalize());
        require(COP_Comm_agree(MPI_COMM_WORLD, &flag) == COP_EINVAL);
        require(COP_Comm_attach(MPI_COMM_WORLD) == COP_ESTATE);
    }
    printf("%d: %s\n", me, how);
    COP_Comm_exit(0);
}
