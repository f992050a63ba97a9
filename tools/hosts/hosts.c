/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/hosts.h"

#include "cluster/keeper.h"
#include "names/cluster.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What happens at a host takes this long at the most: a start waits 60 s for its member. */
#define JOB_TIMEOUT_NS (150 * COP_SEC)

/* ---- the directory --------------------------------------------------------------- */

static int base_path(char *out, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    int length;
    if (user != NULL)
        home = user->pw_dir;
    if (state != NULL && state[0] == '/')
        length = snprintf(out, size, "%s/coppice", state);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, size, "%s/.local/state/coppice", home);
    else
        return COP_ENOENT;
    return length > 0 && (size_t)length < size ? 0 : COP_ETOOBIG;
}

int hosts_path(const char *name, struct hosts *out)
{
    char base[PATH_MAX - 256];
    if (base_path(base, sizeof base) != 0)
        return fail(EXIT_FAILED, "there is no directory for what is known of clusters: "
                                 "set HOME or XDG_STATE_HOME");
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->path, sizeof out->path, "%s/%s", base, name);
    return 0;
}

bool hosts_is(const char *name)
{
    char base[PATH_MAX - 256], path[PATH_MAX];
    if (base_path(base, sizeof base) != 0)
        return false;
    snprintf(path, sizeof path, "%s/%s/" HOSTS_FILE, base, name);
    return access(path, F_OK) == 0;
}

/* The directory with those above it; all of ours are for nobody else. */
static int make_directories(const char *path)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 ? 0 : -errno;
}

/* It is followed by whoever reads a key from there, so it must be ours alone. */
static int check_owner(const struct hosts *hosts)
{
    struct stat status;
    if (lstat(hosts->path, &status) != 0)
        return fail(EXIT_NO_CLUSTER, "%s: %s", hosts->path, strerror(errno));
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077) != 0)
        return fail(EXIT_FAILED,
                    "%s is not a directory of ours that is closed to others: not used",
                    hosts->path);
    return 0;
}

static int write_file(const struct hosts *hosts, const char *file, const char *text)
{
    char path[PATH_MAX + 16];
    size_t length = strlen(text), done = 0;
    snprintf(path, sizeof path, "%s/%s", hosts->path, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (fd >= 0 && done < length) {
        ssize_t wrote = write(fd, text + done, length - done);
        if (wrote < 0 && errno != EINTR)
            break;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && done == length) {
        error = errno;
        done = 0;
    }
    return fd >= 0 && done == length
               ? 0
               : fail(EXIT_FAILED, "%s: %s", path, strerror(error));
}

char *hosts_read(const struct hosts *hosts, const char *file)
{
    char path[PATH_MAX + 16], *text = NULL;
    size_t length = 0, got;
    char part[4096];
    snprintf(path, sizeof path, "%s/%s", hosts->path, file);
    FILE *in = fopen(path, "re");
    FILE *out = in ? open_memstream(&text, &length) : NULL;
    while (out != NULL && (got = fread(part, 1, sizeof part, in)) > 0)
        fwrite(part, 1, got, out);
    bool good = out != NULL && !ferror(in);
    int error = errno;
    if (in != NULL)
        fclose(in);
    if (out != NULL && fclose(out) != 0)
        good = false;
    if (good)
        return text;
    free(text);
    fail(EXIT_FAILED, "%s: %s", path, strerror(error));
    return NULL;
}

static char *describe(const struct hosts *hosts)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fputs("ssh", out);
    for (char *const *word = hosts->ssh.words; *word; word++)
        fprintf(out, " %s", *word);
    fprintf(out, "\nremote %s\nallow-exec %s\n", hosts->remote, hosts->allow_exec);
    for (uint32_t i = 0; i < hosts->count; i++)
        fprintf(out, "%" PRIu32 " %s %s\n", i,
                hosts->ways[i].user[0] ? hosts->ways[i].user : "-",
                hosts->ways[i].host);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/*
 * What an earlier start left that was killed before it had written all of it. The directory
 * above is locked meanwhile, so that it is not the one of a start at this moment.
 */
static int make_anew(const struct hosts *hosts, int *lock)
{
    char base[PATH_MAX];
    snprintf(base, sizeof base, "%s", hosts->path);
    *strrchr(base, '/') = '\0';
    int error = make_directories(base);
    if (error && error != -EEXIST)
        return error;
    *lock = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX) != 0)
        return -errno;
    error = make_directories(hosts->path);
    if (error == -EEXIST && !hosts_is(hosts->name) && check_owner(hosts) == 0 &&
        hosts_remove(hosts) == 0)
        error = make_directories(hosts->path);
    return error;
}

int hosts_create(const struct hosts *hosts, const char *members, const char *key)
{
    int lock = -1;
    int error = make_anew(hosts, &lock);
    if (error && lock >= 0)
        close(lock);
    if (error == -EEXIST)
        return fail(EXIT_FAILED,
                    "cluster '%s' is already up on hosts; choose another --name, or: "
                    "coppice down --name %s",
                    hosts->name, hosts->name);
    if (error)
        return fail(EXIT_FAILED, "%s: %s", hosts->path, strerror(-error));
    char *text = describe(hosts);
    int code = text ? 0 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    if (code == 0 && key != NULL)
        code = write_file(hosts, KEEPER_KEY, key);
    if (code == 0)
        code = write_file(hosts, CLUSTER_FILE, members);
    /* The last: with it there is a cluster. */
    if (code == 0)
        code = write_file(hosts, HOSTS_FILE, text);
    free(text);
    if (code)
        hosts_remove(hosts);
    close(lock);
    return code;
}

int hosts_remove(const struct hosts *hosts)
{
    static const char *const files[] = {HOSTS_FILE, KEEPER_KEY, CLUSTER_FILE,
                                        HOSTS_LAST};
    char path[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", hosts->path, files[i]);
        if (unlink(path) != 0 && errno != ENOENT)
            return fail(EXIT_FAILED, "%s: %s", path, strerror(errno));
    }
    if (rmdir(hosts->path) != 0)
        return fail(EXIT_FAILED, "%s: %s", hosts->path, strerror(errno));
    /* The one above, if that was the last cluster. */
    snprintf(path, sizeof path, "%s", hosts->path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
    return 0;
}

/* ---- reading it ------------------------------------------------------------------ */

static int add_way(struct hosts *hosts, const char *line)
{
    char user[64], host[256];
    unsigned id;
    if (sscanf(line, "%u %63s %255s", &id, user, host) != 3 || id != hosts->count)
        return COP_EINVAL;
    struct hosts_way *grown =
        realloc(hosts->ways, (hosts->count + 1) * sizeof *hosts->ways);
    if (grown == NULL)
        return COP_ENOMEM;
    hosts->ways = grown;
    struct hosts_way way = {strdup(strcmp(user, "-") == 0 ? "" : user), strdup(host)};
    grown[hosts->count++] = way;
    return way.user && way.host ? 0 : COP_ENOMEM;
}

static int read_line(struct hosts *hosts, const char *line)
{
    char message[200];
    if (strncmp(line, "ssh ", 4) == 0)
        return ssh_parse(line + 4, &hosts->ssh, message, sizeof message);
    if (strncmp(line, "remote ", 7) == 0) {
        snprintf(hosts->remote, sizeof hosts->remote, "%s", line + 7);
        return 0;
    }
    if (strncmp(line, "allow-exec ", 11) == 0) {
        snprintf(hosts->allow_exec, sizeof hosts->allow_exec, "%s", line + 11);
        return 0;
    }
    return *line == '\0' ? 0 : add_way(hosts, line);
}

int hosts_open(const char *name, struct hosts *out)
{
    struct hosts *hosts = out;
    char path[PATH_MAX + 16], *line;
    *hosts = (struct hosts){.fanout = HOSTS_FANOUT};
    int code = hosts_path(name, hosts);
    if (code == 0)
        code = check_owner(hosts);
    char *text = code == 0 ? hosts_read(hosts, HOSTS_FILE) : NULL;
    if (text == NULL)
        return code ? code : EXIT_FAILED;
    char *rest = text;
    int error = 0;
    while (error == 0 && (line = strsep(&rest, "\n")) != NULL)
        error = read_line(hosts, line);
    free(text);
    if (error || hosts->count == 0 || hosts->ssh.words[0] == NULL) {
        hosts_close(hosts);
        return fail(EXIT_FAILED, "%s/" HOSTS_FILE ": %s", hosts->path,
                    error ? cop_strerror(error) : "there are no hosts in it");
    }
    snprintf(path, sizeof path, "%s/" KEEPER_KEY, hosts->path);
    hosts->is_insecure = access(path, F_OK) != 0;
    return 0;
}

void hosts_close(struct hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++) {
        free(hosts->ways[i].user);
        free(hosts->ways[i].host);
    }
    free(hosts->ways);
    hosts->ways = NULL;
    hosts->count = 0;
}

cop_id hosts_preferred(const struct hosts *hosts)
{
    char path[PATH_MAX + 16];
    unsigned id = 0;
    snprintf(path, sizeof path, "%s/" HOSTS_LAST, hosts->path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%u", &id) != 1 || id >= hosts->count)
        id = 0;
    fclose(file);
    return id;
}

/* Only a hint: if it cannot be written the next command takes longer. */
void hosts_prefer(const struct hosts *hosts, cop_id id)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/" HOSTS_LAST, hosts->path);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return;
    fprintf(file, "%" PRIu32 "\n", id);
    fclose(file);
}

/* ---- what is done there ---------------------------------------------------------- */

struct ssh_job *hosts_do(const struct hosts *hosts, const char *const *names,
                         const struct cop_ranks *ids, const char *verb,
                         const char *word, char *const *inputs, bool *cancelled)
{
    struct ssh_job *jobs = calloc(ids->count ? ids->count : 1, sizeof *jobs);
    bool good = jobs != NULL;
    for (uint32_t i = 0; i < ids->count && good; i++) {
        const struct hosts_way *way = &hosts->ways[ids->items[i]];
        const char *const words[] = {hosts->remote, "host",   verb,
                                     hosts->name,   names[i], word ? word : NULL,
                                     NULL};
        jobs[i].user = way->user;
        jobs[i].host = way->host;
        jobs[i].command = ssh_quote(words);
        jobs[i].input = inputs ? inputs[i] : NULL;
        jobs[i].input_length = inputs ? strlen(inputs[i]) : 0;
        good = jobs[i].command != NULL;
    }
    int error = good ? ssh_run(&hosts->ssh, jobs, ids->count, hosts->fanout,
                               JOB_TIMEOUT_NS, verb)
                     : COP_ENOMEM;
    *cancelled = error == COP_EABORTED;
    if (error == 0 || *cancelled)
        return jobs;
    fail(EXIT_FAILED, "%s", cop_strerror(error));
    ssh_jobs_free(jobs, ids->count);
    return NULL;
}

char *host_start_encode(const struct host_start *start)
{
    char *text = NULL;
    size_t length = 0;
    const char *key = start->key ? start->key : "";
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fprintf(out, HOST_START_LINE, start->id, start->is_first, start->is_insecure,
            (unsigned long long)start->patience_ns, strlen(start->allow_exec),
            strlen(start->members), strlen(key));
    fputs(start->allow_exec, out);
    fputs(start->members, out);
    fputs(key, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
