// A transaction that the code using its connection must not commit.
#pragma once

namespace outbox
{

// Defines outbox.refuse_commit, and registers what honours it. Called once from _PG_init, before
// the prefix of settings is reserved.
void define_commit_guard();

// Whether the transaction is one that cannot be committed now.
bool commit_is_refused();

} // namespace outbox
