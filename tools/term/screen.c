/* SPDX-License-Identifier: Apache-2.0 */
#include "term/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef COPPICE_HAVE_NCURSES

bool screen_open(char *why, size_t size)
{
    snprintf(why, size, "this coppice was built without ncurses (libncurses-dev)");
    return false;
}

void screen_close(void) {}
void screen_show(const char *text) { (void)text; }
int screen_fd(void) { return -1; }
int screen_key(void) { return -1; }
int screen_signal(void) { return 0; }

#else

#define NCURSES_NOMACROS 1
#include <curses.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                   \
    X(setupterm)                                                                       \
    X(initscr)                                                                         \
    X(endwin)                                                                          \
    X(cbreak)                                                                          \
    X(noecho)                                                                          \
    X(nodelay)                                                                         \
    X(curs_set)                                                                        \
    X(has_colors)                                                                      \
    X(start_color)                                                                     \
    X(use_default_colors)                                                              \
    X(COLOR_PAIR)                                                                      \
    X(init_pair)                                                                       \
    X(werase)                                                                          \
    X(wmove)                                                                           \
    X(wclrtoeol)                                                                       \
    X(waddnstr)                                                                        \
    X(wattr_on)                                                                        \
    X(wattr_off)                                                                       \
    X(wrefresh)                                                                        \
    X(wgetch)                                                                          \
    X(getmaxy)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nc;
static WINDOW *window;
static bool has_red;
static int wait_fd = -1, signal_fd = -1;
static sigset_t mask_before;

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(char *why, size_t size)
{
    void *library = dlopen("libncursesw.so.6", RTLD_NOW | RTLD_LOCAL);
    bool good = library != NULL;
#define FIND(name) good = good && find(library, #name, &nc.name);
    FUNCTIONS(FIND)
#undef FIND
    if (!good)
        snprintf(why, size,
                 "ncurses' libncursesw.so.6 cannot be used (apt-get install "
                 "libncursesw6): %s",
                 dlerror());
    return good;
}

/* initscr would end the process where it does not know the terminal. */
static bool knows_terminal(char *why, size_t size)
{
    int error = 0;
    const char *term = getenv("TERM");
    if (term && nc.setupterm(term, STDOUT_FILENO, &error) == OK)
        return true;
    snprintf(why, size, "ncurses does not know the terminal '%s'", term ? term : "");
    return false;
}

static bool add_fd(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return fd >= 0 && epoll_ctl(wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_waiting(void)
{
    if (wait_fd >= 0)
        close(wait_fd);
    if (signal_fd >= 0)
        close(signal_fd);
    wait_fd = signal_fd = -1;
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* ncurses would end the process by itself on these, with exit status 1. */
static bool open_waiting(char *why, size_t size)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &mask_before);
    wait_fd = epoll_create1(EPOLL_CLOEXEC);
    signal_fd = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
    if (wait_fd >= 0 && add_fd(STDIN_FILENO) && add_fd(signal_fd))
        return true;
    snprintf(why, size, "keys cannot be waited for: %s", strerror(errno));
    close_waiting();
    return false;
}

bool screen_open(char *why, size_t size)
{
    if (!load(why, size) || !knows_terminal(why, size) || !open_waiting(why, size))
        return false;
    setlocale(LC_CTYPE, "");
    window = nc.initscr();
    nc.cbreak();
    nc.noecho();
    nc.nodelay(window, true);
    nc.curs_set(0);
    has_red = nc.has_colors() && nc.start_color() == OK &&
              nc.use_default_colors() == OK && nc.init_pair(1, COLOR_RED, -1) == OK;
    return true;
}

void screen_close(void)
{
    if (window == NULL)
        return;
    nc.endwin();
    window = NULL;
    close_waiting();
}

static attr_t look_of(char mark)
{
    if (mark == '!')
        return has_red ? (attr_t)nc.COLOR_PAIR(1) | A_BOLD : A_BOLD;
    return mark == '*' ? A_BOLD : A_NORMAL;
}

void screen_show(const char *text)
{
    int rows = nc.getmaxy(window);
    nc.werase(window);
    for (int row = 0; *text && row < rows; row++) {
        size_t length = strcspn(text, "\n");
        attr_t look = look_of(text[0]);
        nc.wmove(window, row, 0);
        nc.wclrtoeol(window);
        nc.wattr_on(window, look, NULL);
        /* In bytes; what is wider than the screen goes on in the next row, which is written
         * after it. */
        if (length > 1)
            nc.waddnstr(window, text + 1, (int)length - 1);
        nc.wattr_off(window, look, NULL);
        text += length + (text[length] ? 1 : 0);
    }
    nc.wrefresh(window);
}

int screen_fd(void) { return wait_fd; }

int screen_signal(void)
{
    struct signalfd_siginfo got;
    return read(signal_fd, &got, sizeof got) == (ssize_t)sizeof got ? (int)got.ssi_signo
                                                                    : 0;
}

int screen_key(void)
{
    int key = nc.wgetch(window);
    return key == ERR ? -1 : key;
}

#endif
