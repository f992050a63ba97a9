/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI lets the others go on when a process is killed. */
#include "mpi/job.h"

#include <stdlib.h>
#include <string.h>

/* As Open MPI reads what is true or false; what it does not know it takes for false. */
static bool is_true(const char *text)
{
    static const char *const words[] = {"true", "t", "yes", "enabled"};
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return text != NULL && strtol(text, NULL, 10) != 0;
}

static int check_open_mpi(const char *version)
{
    const char *recovery = getenv("OMPI_MCA_orte_enable_recovery");
    if (strncmp(version, "Open MPI v4.", 12) != 0)
        return cop__mpi_fail(COP_EREFUSED,
                             "%.60s is not known to go on when a process is killed; "
                             "Open MPI 4 is, and 5 has means of its own (ULFM)",
                             version);
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL)
        return cop__mpi_fail(COP_EREFUSED,
                             "not started by mpirun: other launchers end an MPI job "
                             "when a process of it is killed");
    if (!is_true(recovery))
        return cop__mpi_fail(COP_EREFUSED,
                             "mpirun ends the job when a process is killed: start it "
                             "with mpirun --enable-recovery");
    return 0;
}

int cop__mpi_check(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(version, &length);
    /* The first line, up to a comma: the rest tells how it was configured. */
    version[strcspn(version, ",\n")] = '\0';
    for (char *at = version; *at != '\0'; at++)
        if (*at == '\t')
            *at = ' ';
    if (strncmp(version, "Open MPI", 8) == 0)
        return check_open_mpi(version);
    return cop__mpi_fail(COP_EREFUSED,
                         "%.60s ends the job when a process is killed: use Open MPI 4, "
                         "with mpirun --enable-recovery",
                         version);
}
