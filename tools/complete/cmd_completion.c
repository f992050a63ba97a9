/* SPDX-License-Identifier: Apache-2.0 */
#include "complete/complete.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The scripts only ask: what there is to complete is in the tables of the commands, so it is
 * never older than the command itself.
 */
static const char bash_script[] =
    "# bash completion for coppice; from: coppice completion bash\n"
    "_coppice() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} words word last=\n"
    "    read -ra words <<<\"$line\"\n"
    "    case $line in *[[:blank:]]) words+=('') ;; esac\n"
    "    last=${words[${#words[@]}-1]}\n"
    "    COMPREPLY=()\n"
    "    while read -r word; do\n"
    "        if [ \"$word\" = :files ]; then\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            while read -r word; do COMPREPLY+=(\"$word\"); done < <(compgen -f -- "
    "\"$last\")\n"
    "        elif [[ $last == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
    "            # To bash a colon ends a word: it knows what is before the last one.\n"
    "            COMPREPLY+=(\"${word#\"${last%:*}:\"}\")\n"
    "        else\n"
    "            COMPREPLY+=(\"$word\")\n"
    "        fi\n"
    "    done < <(\"${words[0]}\" completion words -- \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _coppice coppice\n";

static const char zsh_script[] =
    "#compdef coppice\n"
    "# zsh completion for coppice; from: coppice completion zsh\n"
    "_coppice() {\n"
    "    local -a found\n"
    "    found=(${(f)\"$(${words[1]} completion words -- ${(@)words[2,CURRENT]} "
    "2>/dev/null)\"})\n"
    "    (( ${found[(I):files]} )) && _files\n"
    "    compadd -- ${found:#:files}\n"
    "}\n"
    "# As a file of fpath it is the function; read by eval or source it has to say "
    "so.\n"
    "if [ \"$funcstack[1]\" = _coppice ]; then\n"
    "    _coppice \"$@\"\n"
    "else\n"
    "    compdef _coppice coppice\n"
    "fi\n";

static const char fish_script[] =
    "# fish completion for coppice; from: coppice completion fish\n"
    "function __coppice_words\n"
    "    set -l line (commandline -opc) (commandline -ct)\n"
    "    for word in (command $line[1] completion words -- $line[2..-1] 2>/dev/null)\n"
    "        if test $word = :files\n"
    "            __fish_complete_path (commandline -ct)\n"
    "        else\n"
    "            echo $word\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c coppice -f -a '(__coppice_words)'\n";

static int print_words(const struct command *command, char **words, int count)
{
    char mark[] = COMPLETE_MARK;
    char **arguments = calloc((size_t)count + 2, sizeof *arguments);
    if (arguments == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    memcpy(arguments, words, (size_t)count * sizeof *arguments);
    arguments[count] = mark;
    int code = command->run(count + 1, arguments);
    free(arguments);
    return code;
}

/* The words of a line without its first, `coppice`. */
static int print_candidates(char **words, int count)
{
    const char *start = count > 0 ? words[0] : "";
    if (count > 1 && strcmp(start, "help") != 0) {
        const struct command *command = command_find(start);
        return command ? print_words(command, words, count) : EXIT_DONE;
    }
    start = count > 0 ? words[count - 1] : "";
    for (const struct command *c = command_first(); c->name; c++)
        complete_offer(c->name, strlen(c->name), start);
    if (count < 2) {
        complete_offer("help", 4, start);
        complete_offer("--help", 6, start);
        complete_offer("--version", 9, start);
    }
    return EXIT_DONE;
}

int cmd_completion(int argc, char **argv)
{
    static const struct args_option options[] = {{0}};
    struct args args = {
        .name = "completion",
        .usage = "bash|zsh|fish | words -- [WORD...]",
        .text = "Prints a script that makes a shell complete commands, options, their\n"
                "values and members; for bash: eval \"$(coppice completion bash)\".\n"
                "`words` is what these scripts call: it prints what may stand for the\n"
                "last of the words, and :files for the names of files.",
        .options = options,
        .least = 1,
        .most = 1000,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    const char *what = args.operands[0];
    if (strcmp(what, "words") == 0)
        return print_candidates(args.operands + 1, args.count - 1);
    const char *script = strcmp(what, "bash") == 0   ? bash_script
                         : strcmp(what, "zsh") == 0  ? zsh_script
                         : strcmp(what, "fish") == 0 ? fish_script
                                                     : NULL;
    if (script == NULL || args.count > 1)
        return fail(EXIT_USAGE, "completion: bash, zsh or fish, not '%s'",
                    args.operands[args.count - 1]);
    fputs(script, stdout);
    return EXIT_DONE;
}
