// PostgreSQL's settings (GUC), in all its versions.
#pragma once

#include "pg.h"

extern "C"
{
#include "tcop/tcopprot.h"
}

namespace outbox
{

// The highest max_stack_depth that the kernel's limit allows, in kB; 0 when it is not known.
inline int
highest_stack_depth()
{
    const long limit = static_cast<long>(get_stack_depth_rlimit());
    return limit <= STACK_DEPTH_SLOP
               ? 0
               : static_cast<int>(Min((limit - STACK_DEPTH_SLOP) / 1024, MAX_KILOBYTES));
}

// Undefined settings with this prefix are refused, or at least warned about.
inline void
reserve_setting_names(const char *prefix)
{
#if PG_VERSION_NUM >= 150000
    MarkGUCPrefixReserved(prefix);
#else
    EmitWarningsOnPlaceholders(prefix);
#endif
}

// Every setting that the session knows.
inline config_generic **
all_settings(int *count)
{
#if PG_VERSION_NUM >= 160000
    return get_guc_variables(count);
#else
    *count = GetNumConfigOptions();
    return get_guc_variables();
#endif
}

// One that is stored in the catalogue: if it is not usable it is left out with a warning, as at the
// start of a session. Returns whether it is usable.
inline bool
apply_stored_setting(const char *name, const char *value, GucSource source)
{
    return set_config_option(name, value, PGC_SUSET, source, GUC_ACTION_SET, true, WARNING,
                             false) != 0;
}

// The setting exists from version 17 on.
inline void
switch_off_transaction_timeout()
{
#if PG_VERSION_NUM >= 170000
    SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
}

} // namespace outbox
