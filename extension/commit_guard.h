// A transaction that is not to be committed by whoever has its connection just now.
#pragma once

namespace outbox
{

// Defines outbox.refuse_commit, and registers what honours it. Called once from _PG_init, before
// the prefix of settings is reserved.
void define_commit_guard();

// Whether the transaction is one that cannot be committed now.
bool commit_is_refused();

} // namespace outbox
