#pragma once

namespace outbox::test
{

// Random, but printed: OUTBOX_TEST_SEED repeats the choices of a run.
unsigned choose_seed();

} // namespace outbox::test
