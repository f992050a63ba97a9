/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_BOOT_H
#define COPPICE_BOOT_H

#include <coppice/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Peers from whoever started this program.
 *
 * A launcher of parallel jobs (mpirun, srun, mpiexec) starts many copies of a program and
 * lets them exchange a few words before they can reach each other. cop_boot uses this once:
 * every process begins to listen, tells the others where, and gets from process 0 a key that
 * was made for this job. After that the launcher is not needed, and not asked any more.
 *
 *   struct cop_boot *boot;
 *   if (cop_boot(&boot, why, sizeof why) != 0)
 *       errx(1, "%s", why);
 *   struct cop_settings settings = {.size = sizeof settings, .on_view = print_view};
 *   cop_boot_settings(boot, &settings);
 *   if (cop_start(&settings, &run, why, sizeof why) != 0)
 *       errx(1, "%s", why);
 *
 * Spoken are PMIx (Open MPI's mpirun, srun --mpi=pmix, prterun), by libpmix if it is
 * installed, and PMI-1 (MPICH's mpiexec, srun --mpi=pmi2). The key is as secret as the launcher keeps what
 * processes tell each other. It is never written to a disk.
 *
 * Processes of one machine meet on its loopback; across machines, on the first interface that
 * is up and not the loopback, or on the one that COPPICE_INTERFACE names (eth1, or a numeric
 * address).
 *
 * In an MPI program call it before MPI_Init or after it, with PMIx; with PMI-1 after it.
 */
struct cop_boot;

/* Whether this process was started by a launcher that cop_boot can speak to. */
bool cop_boot_is_there(void);

/*
 * Finds the other processes of this job. All of them must call it, and it returns when all
 * have.
 *   COP_ENOENT    no launcher, or one that is not understood here
 *   COP_EREFUSED  the launcher said no; or a process of the job is of another version
 *   COP_EIO       no socket, or no connection to the launcher
 *   COP_ENOMEM
 * On failure `message`, if it is not NULL, gets one sentence that says what is wrong.
 */
int cop_boot(struct cop_boot **out, char *message, size_t size);

/*
 * The same by means of the caller's own, say the MPI that it is written for: every process
 * has a word of less than COP_BOOT_WORD_MAX bytes, and `gather` gets those of all, by rank,
 * as long as all processes call it.
 */
#define COP_BOOT_WORD_MAX 256u
struct cop_boot_means {
    uint32_t rank, size;
    bool is_local;   /* all of them are on this machine */
    const char *job; /* a name that no other job has at the same time */
    /* 0, or an error, which cop_boot_by returns. */
    int (*gather)(void *context, const char word[COP_BOOT_WORD_MAX],
                  char (*words)[COP_BOOT_WORD_MAX]);
    void *context;
};
/* As cop_boot, by these means. COP_EINVAL: they are not possible. */
int cop_boot_by(const struct cop_boot_means *means, struct cop_boot **out,
                char *message, size_t size);

/* Which of the processes this is: 0, 1, ... */
cop_id cop_boot_rank(const struct cop_boot *boot);
/* How many there are. */
uint32_t cop_boot_size(const struct cop_boot *boot);
/* "pmix", "pmi", or "own" for means of the caller's. */
const char *cop_boot_launcher(const struct cop_boot *boot);

/*
 * Sets what the processes have agreed on (cluster, instance, addresses, count, self,
 * listen_fd, key_file, all_listen), and where they are NULL what suits a job: shape "knomial:2", quorum
 * "none", detector "connection". The strings belong to `boot`, which must live until
 * cop_start has returned. The listening socket is given to the first who asks.
 */
void cop_boot_settings(struct cop_boot *boot, struct cop_settings *settings);

/* Wipes the key, and closes the listening socket if nobody took it. NULL is ignored. */
void cop_boot_free(struct cop_boot *boot);

#ifdef __cplusplus
}
#endif

#endif
