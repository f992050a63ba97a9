/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/security.h"

#include "cluster/settings.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <string.h>

/* The key of the flag, or of the environment or the file of settings; NULL if none is. */
static int find_key(const char *flag, struct settings *settings, const char **out)
{
    const char *flags[SETTINGS_COUNT] = {[SETTING_key] = flag};
    int code = settings_load(settings, flags);
    if (code)
        return code;
    const char *key = settings->at[SETTING_key].value;
    *out = key[0] != '\0' ? key : NULL;
    return 0;
}

int security_open(const char *command, const struct security_options *options,
                  struct cop__tls **out)
{
    const char *const parts[] = {options->authority, options->certificate,
                                 options->private_key};
    struct settings settings;
    struct cop__tls_files files = {NULL, parts[0], parts[1], parts[2]};
    char message[400];
    int given = (parts[0] != NULL) + (parts[1] != NULL) + (parts[2] != NULL);
    *out = NULL;
    if (given != 0 && given != 3)
        return fail(EXIT_USAGE, "%s: --ca, --cert and --cert-key go together", command);
    if ((options->key != NULL) + (given != 0) + options->insecure > 1)
        return fail(EXIT_USAGE, "%s: --key, --ca and --insecure exclude each other",
                    command);
    if (options->insecure)
        return 0;
    int code = given ? 0 : find_key(options->key, &settings, &files.key);
    if (code || (!given && files.key == NULL))
        return code;
    int error = cop__tls_create(&files, out, message, sizeof message);
    if (error)
        return fail(error == COP_EREFUSED ? EXIT_REFUSED : EXIT_FAILED, "%s", message);
    return 0;
}

int security_check(const char *command, const struct cop__address *address,
                   const struct cop__tls *tls, bool insecure)
{
    if (address->storage.ss_family == AF_UNIX || tls != NULL || insecure)
        return 0;
    return fail(EXIT_USAGE,
                "%s: TCP needs a key (--key FILE; coppice key new makes one) or a "
                "certificate; or type --insecure, and whoever connects is believed",
                command);
}
