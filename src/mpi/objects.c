/* SPDX-License-Identifier: Apache-2.0 */
/* Windows and files: who of their processes has failed. Each has agreements of its own. */
#include "mpi/job.h"

static struct cop__attached *find_win(MPI_Win win)
{
    struct cop__attached *at = cop__job.list;
    while (at != NULL && (win == MPI_WIN_NULL || at->win != win))
        at = at->next;
    if (at == NULL)
        cop__mpi_fail(COP_EINVAL, "this window is not attached");
    return at;
}

static struct cop__attached *find_file(MPI_File file)
{
    struct cop__attached *at = cop__job.list;
    while (at != NULL && (file == MPI_FILE_NULL || at->file != file))
        at = at->next;
    if (at == NULL)
        cop__mpi_fail(COP_EINVAL, "this file is not attached");
    return at;
}

/* Of the same processes, in whatever order. */
static int compare_groups(MPI_Comm comm, MPI_Group group)
{
    MPI_Group theirs;
    int result = MPI_UNEQUAL;
    if (MPI_Comm_group(comm, &theirs) != MPI_SUCCESS)
        return cop__mpi_fail(COP_EINVAL, "this communicator has no group");
    MPI_Group_compare(group, theirs, &result);
    MPI_Group_free(&theirs);
    return result != MPI_UNEQUAL
               ? 0
               : cop__mpi_fail(COP_EINVAL, "it is not of the communicator's processes");
}

/* The number comes from an agreement, and not from MPI, so that somebody may have failed. */
static int attach(const struct cop__attached *like, MPI_Group group, MPI_Comm comm)
{
    const struct cop__attached *parent = cop__mpi_find(comm);
    if (parent == NULL)
        return COP_EINVAL;
    int error = compare_groups(comm, group);
    uint64_t word = ~cop__job.counter;
    if (error == 0)
        error = cop__mpi_agree(parent->number, COP_AGREE_MIN, &word, 1, NULL, NULL);
    return error ? error : cop__mpi_add(like, group, ~word + 1);
}

static int detach(struct cop__attached *at)
{
    if (at == NULL)
        return COP_EINVAL;
    cop__mpi_remove(at);
    return 0;
}

/* ---- windows --------------------------------------------------------------------- */

int COP_Win_attach(MPI_Win win, MPI_Comm comm)
{
    const struct cop__attached like = {
        .comm = MPI_COMM_NULL, .win = win, .file = MPI_FILE_NULL};
    MPI_Group group;
    cop__mpi_clear_error();
    if (win == MPI_WIN_NULL)
        return cop__mpi_fail(COP_EINVAL, "no window");
    int error = MPI_Win_get_group(win, &group);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_Win_get_group");
    error = attach(&like, group, comm);
    MPI_Group_free(&group);
    if (error == 0)
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    return error;
}

int COP_Win_detach(MPI_Win win) { return detach(find_win(win)); }

int COP_Win_validate(MPI_Win win, MPI_Group *failed)
{
    const struct cop__attached *at = find_win(win);
    int error = at ? cop__mpi_check_place(failed) : COP_EINVAL;
    return error ? error : cop__mpi_validate(at, failed);
}

int COP_Win_validate_all(MPI_Win win, MPI_Group *failed)
{
    const struct cop__attached *at = find_win(win);
    return at ? cop__mpi_validate_all(at, failed) : COP_EINVAL;
}

/* ---- files ----------------------------------------------------------------------- */

int COP_File_attach(MPI_File file, MPI_Comm comm)
{
    const struct cop__attached like = {
        .comm = MPI_COMM_NULL, .win = MPI_WIN_NULL, .file = file};
    MPI_Group group;
    cop__mpi_clear_error();
    if (file == MPI_FILE_NULL)
        return cop__mpi_fail(COP_EINVAL, "no file");
    int error = MPI_File_get_group(file, &group);
    if (error != MPI_SUCCESS)
        return cop__mpi_fail_with(error, "MPI_File_get_group");
    error = attach(&like, group, comm);
    MPI_Group_free(&group);
    return error;
}

int COP_File_detach(MPI_File file) { return detach(find_file(file)); }

int COP_File_validate(MPI_File file, MPI_Group *failed)
{
    const struct cop__attached *at = find_file(file);
    int error = at ? cop__mpi_check_place(failed) : COP_EINVAL;
    return error ? error : cop__mpi_validate(at, failed);
}

int COP_File_validate_all(MPI_File file, MPI_Group *failed)
{
    const struct cop__attached *at = find_file(file);
    return at ? cop__mpi_validate_all(at, failed) : COP_EINVAL;
}
