/* SPDX-License-Identifier: Apache-2.0 */
/* Agreeing: on who has failed, on flags and words; and saying that one knows. */
#include "mpi/job.h"

#include <stdlib.h>
#include <string.h>

/* Somebody may compute for long before it calls: that is no failure. */
#define PATIENCE_NS (UINT64_C(1000) * 24 * 3600 * COP_SEC)

static void note_failed(const struct cop_agreed *agreed, bool *failed)
{
    cop__job_mark_failed(agreed);
    if (failed == NULL)
        return;
    memset(failed, 0, (size_t)cop__job.size * sizeof *failed);
    for (uint32_t i = 0; i < agreed->failed.count; i++)
        failed[agreed->failed.items[i]] = true;
}

int cop__mpi_agree(uint64_t number, enum cop_agree_op op, uint64_t *words,
                   uint32_t count, bool *failed, uint64_t *which)
{
    const struct cop_agree_call call = {.group = number,
                                        .op = op,
                                        .value = words,
                                        .length = count * (uint32_t)sizeof *words,
                                        .timeout_ns = PATIENCE_NS};
    struct cop_agreed agreed;
    int error = cop_agree_wait(cop__job.run, &call, &agreed);
    if (error == 0) {
        for (uint32_t i = 0; i < count; i++)
            words[i] = cop_agreed_word(&agreed, i);
        note_failed(&agreed, failed);
        if (which != NULL)
            *which = agreed.number;
    }
    cop_agreed_free(&agreed);
    return error ? cop__mpi_fail_with(error, "no agreement") : 0;
}

/* ---- who has failed -------------------------------------------------------------- */

int cop__mpi_select(const struct cop__attached *at, const bool *is_in, MPI_Group *out)
{
    int *ids = calloc((size_t)at->size, sizeof *ids), count = 0;
    if (ids == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    for (int i = 0; i < at->size; i++)
        if (is_in[at->ids[i]])
            ids[count++] = (int)at->ids[i];
    int error = MPI_Group_incl(cop__job.all, count, ids, out);
    free(ids);
    return error == MPI_SUCCESS ? 0 : cop__mpi_fail_with(error, "MPI_Group_incl");
}

int cop__mpi_validate(const struct cop__attached *at, MPI_Group *failed)
{
    bool *copy = cop__job_failed();
    int error = copy ? cop__mpi_select(at, copy, failed) : COP_ENOMEM;
    free(copy);
    return error;
}

int cop__mpi_validate_all(const struct cop__attached *at, MPI_Group *failed)
{
    struct cop_agreed agreed;
    bool *is_in = calloc((size_t)cop__job.size, sizeof *is_in);
    if (is_in == NULL)
        return cop__mpi_fail(COP_ENOMEM, "no memory");
    int error = cop_validate_wait(cop__job.run, at->number, PATIENCE_NS, &agreed);
    if (error == 0)
        note_failed(&agreed, is_in);
    else
        cop__mpi_fail_with(error, "no agreement on who has failed");
    cop_agreed_free(&agreed);
    if (error == 0 && failed != NULL)
        error = cop__mpi_select(at, is_in, failed);
    free(is_in);
    return error;
}

int COP_Comm_validate(MPI_Comm comm, MPI_Group *failed)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, failed);
    return at ? cop__mpi_validate(at, failed) : COP_EINVAL;
}

int COP_Comm_validate_all(MPI_Comm comm, MPI_Group *failed)
{
    const struct cop__attached *at = cop__mpi_find(comm);
    return at ? cop__mpi_validate_all(at, failed) : COP_EINVAL;
}

/* ---- values ---------------------------------------------------------------------- */

int COP_Comm_agree(MPI_Comm comm, int *flag)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, flag);
    if (at == NULL)
        return COP_EINVAL;
    uint64_t word = (unsigned)*flag;
    int error = cop__mpi_agree(at->number, COP_AGREE_AND, &word, 1, NULL, NULL);
    if (error == 0)
        *flag = (int)(unsigned)word;
    return error;
}

static int find_op(MPI_Op op, enum cop_agree_op *out)
{
    const struct {
        MPI_Op theirs;
        enum cop_agree_op ours;
    } ops[] = {{MPI_BAND, COP_AGREE_AND},
               {MPI_BOR, COP_AGREE_OR},
               {MPI_SUM, COP_AGREE_SUM},
               {MPI_MIN, COP_AGREE_MIN},
               {MPI_MAX, COP_AGREE_MAX}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].theirs == op) {
            *out = ops[i].ours;
            return 0;
        }
    return cop__mpi_fail(COP_EINVAL, "agreed on can be MPI_BAND, MPI_BOR, MPI_SUM, "
                                     "MPI_MIN and MPI_MAX");
}

int COP_Comm_agree_words(MPI_Comm comm, uint64_t *words, int count, MPI_Op op)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, words);
    enum cop_agree_op ours = COP_AGREE_AND;
    if (at == NULL)
        return COP_EINVAL;
    if (count < 1 || (size_t)count > COP_VALUE_MAX / sizeof *words)
        return cop__mpi_fail(COP_ERANGE, "%d words: from 1 to %zu can be agreed on",
                             count, COP_VALUE_MAX / sizeof *words);
    int error = find_op(op, &ours);
    return error ? error
                 : cop__mpi_agree(at->number, ours, words, (uint32_t)count, NULL, NULL);
}

/* ---- acknowledging --------------------------------------------------------------- */

int COP_Comm_failure_ack(MPI_Comm comm)
{
    struct cop__attached *at = cop__mpi_find(comm);
    bool *failed = at ? cop__job_failed() : NULL;
    if (failed == NULL)
        return at ? COP_ENOMEM : COP_EINVAL;
    for (int i = 0; i < at->size; i++)
        at->acked[i] |= failed[at->ids[i]];
    free(failed);
    return 0;
}

int COP_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *acked)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, acked);
    bool *is_in = at ? calloc((size_t)cop__job.size, sizeof *is_in) : NULL;
    if (is_in == NULL)
        return at ? cop__mpi_fail(COP_ENOMEM, "no memory") : COP_EINVAL;
    for (int i = 0; i < at->size; i++)
        is_in[at->ids[i]] = at->acked[i];
    int error = cop__mpi_select(at, is_in, acked);
    free(is_in);
    return error;
}

/* One bit for each rank that this process has acknowledged, behind the flag. */
static int agree_acked(const struct cop__attached *at, uint64_t *words, uint32_t count,
                       bool *failed)
{
    for (int i = 0; i < at->size; i++)
        words[1 + i / 64] |= (uint64_t)at->acked[i] << i % 64;
    int error = cop__mpi_agree(at->number, COP_AGREE_AND, words, count, failed, NULL);
    if (error)
        return error;
    for (int i = 0; i < at->size; i++)
        if (failed[at->ids[i]] && (words[1 + i / 64] >> i % 64 & 1) == 0)
            return cop__mpi_fail(
                COP_ELOST, "rank %d has failed, and not everybody acknowledged it", i);
    return 0;
}

int COP_Comm_agree_acked(MPI_Comm comm, int *flag)
{
    const struct cop__attached *at = cop__mpi_find_with(comm, flag);
    if (at == NULL)
        return COP_EINVAL;
    uint32_t count = 1 + ((uint32_t)at->size + 63) / 64;
    uint64_t *words = calloc(count, sizeof *words);
    bool *failed = calloc((size_t)cop__job.size, sizeof *failed);
    int error = COP_ENOMEM;
    if (words == NULL || failed == NULL) {
        cop__mpi_fail(error, "no memory");
    } else {
        words[0] = (unsigned)*flag;
        error = agree_acked(at, words, count, failed);
        if (error == 0 || error == COP_ELOST)
            *flag = (int)(unsigned)words[0];
    }
    free(words);
    free(failed);
    return error;
}
