/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over files that are already there, without libFuzzer: every argument is
 * a file or a directory of files, taken in the order of their names. A build without clang
 * can so try again whatever once found a bug.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional in libFuzzer, so optional here. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned long replayed;

static int complain(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 1;
}

/*
 * The input sits in a block of exactly its size, so that a sanitizer sees the first byte
 * read beyond it.
 */
static int replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return complain(path);
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL) {
        fclose(file);
        return complain(path);
    }
    size_t got = fread(data, 1, size, file);
    fclose(file);
    if (got != size) {
        fprintf(stderr, "%s: short read\n", path);
        free(data);
        return 1;
    }
    LLVMFuzzerTestOneInput(data, size);
    replayed++;
    free(data);
    return 0;
}

static int replay_path(const char *path);

static int replay_directory(const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    if (count < 0)
        return complain(path);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.' && !failed) {
            char whole[4096];
            int length = snprintf(whole, sizeof whole, "%s/%s", path, name);
            failed = length < 0 || (size_t)length >= sizeof whole || replay_path(whole);
        }
        free(names[i]);
    }
    free(names);
    return failed;
}

static int replay_path(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return complain(path);
    if (S_ISDIR(status.st_mode))
        return replay_directory(path);
    return replay_file(path, (size_t)status.st_size);
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize != NULL && LLVMFuzzerInitialize(&argc, &argv) != 0)
        return 1;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if (replay_path(argv[i]) != 0)
            return 1;
    /* A target without inputs checks nothing, and should not look as if it did. */
    if (replayed == 0) {
        fprintf(stderr, "%s: no inputs\n", argv[1]);
        return 1;
    }
    printf("%lu inputs replayed\n", replayed);
    return 0;
}
