/* SPDX-License-Identifier: Apache-2.0 */
/* The same headers as C++ sees them, and the same functions as its linker finds them. */
#include <coppice/coppice.h>

#include <cstdio>
#include <cstring>

int main()
{
    struct cop_buf *bytes = cop_buf_copy("twelve bytes", 12);
    if (bytes == nullptr || bytes->length != 12 ||
        std::memcmp(bytes->data, "twelve bytes", 12) != 0)
        return 1;
    cop_buf_unref(bytes);
    if (std::strcmp(cop_error_name(COP_ETIMEDOUT), "COP_ETIMEDOUT") != 0)
        return 1;
    enum cop_algorithm algorithm;
    if (cop_algorithm_parse("strict", &algorithm) != 0 || algorithm != COP_AGREE_STRICT)
        return 1;
    std::puts(COP_VERSION_STRING);
    return 0;
}
