#include "hidden_statements.h"

#include "pg.h"

namespace outbox
{

namespace
{

emit_log_hook_type previous_hook;
const char *hidden; // a literal; null: nothing is to be hidden

void
hide(ErrorData *error)
{
    if (hidden != nullptr && error->message != nullptr && strstr(error->message, hidden) != nullptr)
    {
        error->hide_stmt = true;
        error->hide_ctx = true;
        hidden = nullptr;
    }
    if (previous_hook != nullptr)
        previous_hook(error);
}

} // namespace

void
install_statement_hiding()
{
    previous_hook = emit_log_hook;
    emit_log_hook = hide;
}

void
hide_statement_about(const char *setting)
{
    hidden = setting;
}

} // namespace outbox
