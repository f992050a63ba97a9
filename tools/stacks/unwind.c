/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/unwind.h"
#include "term/say.h"

#ifndef COPPICE_HAVE_LIBDW

bool unwind_is_there(char *why, size_t size)
{
    snprintf(why, size, "this coppice was built without elfutils (libdw-dev)");
    return false;
}

void unwind_process(pid_t pid, bool threads, cop_time patience_ns, FILE *out)
{
    (void)threads, (void)patience_ns;
    fprintf(out, "M %d built without elfutils\n", (int)pid);
}

#else

#include <dirent.h>
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#define FRAMES_MAX 256u
#define THREADS_MAX 4096u

/* ---- the library ----------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                   \
    X(dwfl_begin)                                                                      \
    X(dwfl_end)                                                                        \
    X(dwfl_report_end)                                                                 \
    X(dwfl_linux_proc_report)                                                          \
    X(dwfl_linux_proc_attach)                                                          \
    X(dwfl_linux_proc_find_elf)                                                        \
    X(dwfl_standard_find_debuginfo)                                                    \
    X(dwfl_getthread_frames)                                                           \
    X(dwfl_frame_pc)                                                                   \
    X(dwfl_addrmodule)                                                                 \
    X(dwfl_module_addrname)                                                            \
    X(dwfl_module_info)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} dw;

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

bool unwind_is_there(char *why, size_t size)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    bool good = library != NULL;
#define FIND(name) good = good && find(library, #name, &dw.name);
    FUNCTIONS(FIND)
#undef FIND
    if (!good)
        snprintf(why, size,
                 "elfutils' libdw.so.1 cannot be used (apt-get install libdw1): %s",
                 dlerror());
    return good;
}

/* ---- holding threads ------------------------------------------------------------- */

struct thread {
    pid_t id;
    bool held;
    int signal; /* that was on its way when it was held: it gets it back */
    uint32_t frames;
    struct {
        uint64_t pc;
        bool exact; /* not the return address of a call */
    } frame[FRAMES_MAX];
};

struct process {
    pid_t pid;
    bool threads;
    FILE *out;
    struct thread *thread;
    uint32_t count;
    Dwfl *dwfl;
};

static int number_of(const struct process *process, const struct thread *thread)
{
    return process->threads ? thread->id : process->pid;
}

static void miss(const struct process *process, const struct thread *thread,
                 const char *why)
{
    fprintf(process->out, "M %d %s\n", number_of(process, thread), why);
}

/* The letter of its state in /proc; 0 if it is gone. */
static char state_of(pid_t pid, pid_t thread)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    /* The name before it is in brackets, and may have brackets of its own. */
    if (fgets(line, sizeof line, file)) {
        const char *after = strrchr(line, ')');
        state = after && after[1] ? after[2] : 0;
    }
    fclose(file);
    return state;
}

/* Waits until it is held, for at most so long. False: it is gone, or did not stop. */
static bool await_stop(struct thread *thread, cop_time deadline, const sigset_t *child)
{
    for (;;) {
        int status;
        pid_t got = waitpid(thread->id, &status, __WALL | WNOHANG);
        if (got == thread->id && WIFSTOPPED(status)) {
            if (status >> 16 != PTRACE_EVENT_STOP)
                thread->signal = WSTOPSIG(status);
            return true;
        }
        if (got != 0)
            return false;
        cop_time now = now_ns();
        if (now >= deadline)
            return false;
        struct timespec left = {(time_t)((deadline - now) / COP_SEC),
                                (long)((deadline - now) % COP_SEC)};
        sigtimedwait(child, NULL, &left);
    }
}

static const char *why_not_held(const struct process *process,
                                const struct thread *thread)
{
    char state = state_of(process->pid, thread->id);
    if (state == 0 || state == 'Z' || state == 'X')
        return "it has ended meanwhile";
    return state == 'D' ? "in the kernel, where it cannot be held (state D)"
                        : "it did not stop in time";
}

/* False: nobody of this process may be looked at. */
static bool hold(struct process *process, struct thread *thread, cop_time patience_ns,
                 const sigset_t *child)
{
    if (ptrace(PTRACE_SEIZE, thread->id, NULL, NULL) != 0) {
        bool gone = errno == ESRCH || strchr("ZX", state_of(process->pid, thread->id));
        miss(process, thread,
             gone ? "it has ended meanwhile"
                  : "permission denied: it is another user's, may more than we may, "
                    "or is traced already");
        return gone;
    }
    if (ptrace(PTRACE_INTERRUPT, thread->id, NULL, NULL) == 0)
        thread->held = await_stop(thread, now_ns() + patience_ns, child);
    if (!thread->held)
        miss(process, thread, why_not_held(process, thread));
    return true;
}

static void let_go(struct thread *thread)
{
    if (thread->held)
        ptrace(PTRACE_DETACH, thread->id, NULL, (void *)(uintptr_t)thread->signal);
    thread->held = false;
}

/* ---- frames ---------------------------------------------------------------------- */

static int take_frame(Dwfl_Frame *frame, void *arg)
{
    struct thread *thread = arg;
    Dwarf_Addr pc;
    bool exact;
    if (thread->frames == FRAMES_MAX || !dw.dwfl_frame_pc(frame, &pc, &exact))
        return DWARF_CB_ABORT;
    thread->frame[thread->frames].pc = pc;
    thread->frame[thread->frames++].exact = exact;
    return DWARF_CB_OK;
}

/* What a line of stacks uses itself must not be in a name; nor the version of a symbol. */
static void put_name(FILE *out, const char *name)
{
    for (size_t length = strcspn(name, "@"); length > 0; length--, name++)
        fputc(*name == ';' || *name == '\n' || *name == '\t' ? '_' : *name, out);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The function; without symbols, the file and the place in it, which is the same in every
 * process, whatever its addresses are. */
static void put_frame(const struct process *process, uint64_t pc, bool exact)
{
    Dwarf_Addr place = exact ? pc : pc - 1, start = 0;
    Dwfl_Module *module = dw.dwfl_addrmodule(process->dwfl, place);
    const char *name = module ? dw.dwfl_module_addrname(module, place) : NULL;
    if (name && *name) {
        put_name(process->out, name);
        return;
    }
    const char *file =
        module ? dw.dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL)
               : NULL;
    put_name(process->out, file && *file ? base_name(file) : "[unknown]");
    if (file && *file)
        fprintf(process->out, "+0x%llx", (unsigned long long)(place - start));
}

static void put_thread(const struct process *process, const struct thread *thread)
{
    fprintf(process->out, "S %d ", number_of(process, thread));
    for (uint32_t i = thread->frames; i-- > 0;) {
        put_frame(process, thread->frame[i].pc, thread->frame[i].exact);
        fputc(i > 0 ? ';' : '\n', process->out);
    }
}

/* ---- one process ----------------------------------------------------------------- */

static const Dwfl_Callbacks *callbacks(void)
{
    static Dwfl_Callbacks table;
    static char *paths;
    table.find_elf = dw.dwfl_linux_proc_find_elf;
    table.find_debuginfo = dw.dwfl_standard_find_debuginfo;
    table.debuginfo_path = &paths;
    return &table;
}

/* What is loaded where. False: not ours to read, or no program at all. */
static bool open_process(struct process *process)
{
    process->dwfl = dw.dwfl_begin(callbacks());
    if (process->dwfl == NULL)
        return false;
    return dw.dwfl_linux_proc_report(process->dwfl, process->pid) == 0 &&
           dw.dwfl_report_end(process->dwfl, NULL, NULL) == 0 &&
           dw.dwfl_linux_proc_attach(process->dwfl, process->pid, true) == 0;
}

static bool list_threads(struct process *process)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/task", (int)process->pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return false;
    struct dirent *entry;
    while (process->count < THREADS_MAX && (entry = readdir(folder))) {
        int id = atoi(entry->d_name);
        if (id <= 0)
            continue;
        struct thread *larger =
            realloc(process->thread, (process->count + 1) * sizeof *larger);
        if (larger == NULL)
            break;
        process->thread = larger;
        process->thread[process->count] = (struct thread){.id = id};
        process->count++;
    }
    closedir(folder);
    return process->count > 0;
}

/* All threads are held at once, so that what is seen is one moment. Names are looked up
 * when they run again. */
static void look(struct process *process, cop_time patience_ns)
{
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    bool may = true;
    for (uint32_t i = 0; may && i < process->count; i++)
        may = hold(process, &process->thread[i], patience_ns, &child);
    bool open = open_process(process);
    for (uint32_t i = 0; i < process->count; i++) {
        struct thread *thread = &process->thread[i];
        if (thread->held && open)
            dw.dwfl_getthread_frames(process->dwfl, thread->id, take_frame, thread);
    }
    for (uint32_t i = 0; i < process->count; i++) {
        struct thread *thread = &process->thread[i];
        bool held = thread->held;
        let_go(thread);
        if (held && thread->frames > 0)
            put_thread(process, thread);
        else if (held)
            miss(process, thread, "its stack cannot be read");
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void unwind_process(pid_t pid, bool threads, cop_time patience_ns, FILE *out)
{
    struct process process = {.pid = pid, .threads = threads, .out = out};
    if (list_threads(&process))
        look(&process, patience_ns);
    else
        fprintf(out, "M %d it has ended meanwhile\n", (int)pid);
    if (process.dwfl)
        dw.dwfl_end(process.dwfl);
    free(process.thread);
}

#endif
