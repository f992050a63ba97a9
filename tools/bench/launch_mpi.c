/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/launch_mpi.h"

#include "term/commands.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 24

static bool find_program(const char *name, char out[PATH_MAX])
{
    static const char *const places[] = {"", "../libexec/coppice/"};
    char here[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (length <= 0)
        return false;
    here[length] = '\0';
    *(strrchr(here, '/') + 1) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int size = snprintf(out, PATH_MAX, "%s%s%s", here, places[i], name);
        if (size < PATH_MAX && access(out, X_OK) == 0)
            return true;
    }
    return false;
}

/* Never returns. */
_Noreturn static void become(const struct mpi_launch *launch, const char *program,
                             int output)
{
    char n[16], repetitions[16], warm_up[16], transports[40];
    const char *words[WORDS_MAX] = {"mpirun", "--oversubscribe"};
    size_t count = 2;
    snprintf(n, sizeof n, "%" PRIu32, launch->n);
    snprintf(repetitions, sizeof repetitions, "%" PRIu32, launch->repetitions);
    snprintf(warm_up, sizeof warm_up, "%" PRIu32, launch->warm_up);
    snprintf(transports, sizeof transports, "%s,self", launch->transport);
    if (geteuid() == 0)
        words[count++] = "--allow-run-as-root";
    const char *const rest[] = {"-np",   n,           "--mca", "pml",
                                "ob1",   "--mca",     "btl",   transports,
                                program, repetitions, warm_up};
    memcpy(words + count, rest, sizeof rest);
    int null = open("/dev/null", O_RDWR);
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(null, 2) < 0)
        _exit(126);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(errno == ENOENT ? 127 : 126);
}

/* The last line that is a number. */
static bool read_number(int fd, double *out)
{
    FILE *file = fdopen(fd, "r");
    char line[200];
    bool found = false;
    if (file == NULL) {
        close(fd);
        return false;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        char *end;
        double value = strtod(line, &end);
        if (end != line && *end == '\n') {
            *out = value;
            found = true;
        }
    }
    fclose(file);
    return found;
}

static int complain_of(const struct mpi_launch *launch, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return fail(EXIT_FAILED, "bench: there is no mpirun (Debian: openmpi-bin)");
    return fail(EXIT_FAILED,
                "bench: mpirun over %s of %" PRIu32 " processes failed (status %d)",
                launch->transport, launch->n,
                WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

int mpi_time(const struct mpi_launch *launch, double *out)
{
    char program[PATH_MAX];
    int ends[2], status = 0;
    if (!find_program(launch->program, program))
        return fail(EXIT_FAILED,
                    "bench: %s is not there: it is built where Open MPI is found "
                    "(Debian: libopenmpi-dev)",
                    launch->program);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(EXIT_FAILED, "bench: no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(launch, program, ends[1]);
    close(ends[1]);
    bool found = read_number(ends[0], out);
    if (pid < 0)
        return fail(EXIT_FAILED, "bench: no process: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return found && status == 0 ? 0 : complain_of(launch, status);
}
