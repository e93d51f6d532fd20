// The library that every backend loads: a table of contents of what it registers.

#include "extension/consume/commit_guard.h"
#include "extension/consume/session_changes.h"
#include "extension/emit/kept_table.h"
#include "extension/emit/transaction.h"
#include "extension/launcher/launcher.h"
#include "extension/launcher/utility_hook.h"
#include "extension/server/hidden_statements.h"
#include "extension/shared/settings.h"
#include "extension/shared/shared_state.h"

extern "C"
{
    PG_MODULE_MAGIC;

    OUTBOX_FUNCTION(outbox_version);

    PGDLLEXPORT void _PG_init(void);

    void _PG_init(void)
    {
        outbox::define_session_changes();
        outbox::define_commit_guard();
        outbox::install_statement_hiding();
        outbox::define_settings();
        outbox::register_transaction_callbacks();
        outbox::install_utility_hook();
        outbox::install_statement_hook();

        // During pg_upgrade nothing may be published: neither shared memory nor workers.
        if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
            return;
        outbox::reserve_shared_state();
        outbox::register_launcher();
    }

    Datum outbox_version(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        PG_RETURN_TEXT_P(cstring_to_text(OUTBOX_VERSION));
    }
}
