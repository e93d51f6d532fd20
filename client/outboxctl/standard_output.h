// What goes to standard output, and what becomes of us when it cannot go there.
#pragma once

#include <string>
#include <string_view>

namespace outbox::ctl
{

// Call it first. Standard files that are closed are filled, so that no connection takes their
// numbers and is written to; a reader who went away shows as an error, not as a signal. Returns
// false when standard output was closed.
bool prepare_standard_files();

// Both throw OutputGone when the reader is gone, and Error when there is no room, say; after that
// nothing more is written. While signals are waited for, a reader who does not read cannot keep us
// from taking them.
void write_output(std::string_view text);
void flush_output();

// For ends that are reported already: what is left is written if it can be.
void flush_output_if_possible() noexcept;

// What has happened for good, as a sentence; it is reported when we end before all is done, or
// when its result cannot be printed.
void note_effect(const std::string &effect);

// Adds what may have happened: "the event is emitted".
void note_doubt(const std::string &effect);

const std::string &noted_effect();

} // namespace outbox::ctl
