// Whose an answer is: the event's, its subject's, or the destination's.
#pragma once

#include "bgworker/engine/failure.h"

#include "pub_ack.h"

#include <string_view>

namespace outbox::nats
{

// How far a refusal reaches.
enum class Reach : unsigned char
{
    none, // the message is stored
    // This message; another one of the same subject may be stored.
    event,
    // Whatever is published on the subject; other subjects may be fine.
    subject,
    // Whatever is published.
    destination
};

struct Judgement
{
    Reach reach = Reach::none;
    Failure failure;
};

// `stream`: the stream that every message has to go to, or empty. What ails that ails all.
Judgement judge_answer(std::string_view subject, std::string_view stream,
                       const Answer &answer) noexcept;
// Nobody listens on the subject.
Judgement judge_no_responders(std::string_view subject) noexcept;
// The server has said so of the subject.
Judgement judge_not_permitted(std::string_view subject) noexcept;
// No answer in time, although others were answered.
Judgement judge_silence(std::string_view subject, int timeout_ms) noexcept;
// Something answers that is no stream.
Judgement judge_strange_answer(std::string_view subject) noexcept;
Judgement judge_too_large(std::string_view subject, long long limit) noexcept;

// What an answer to a question about JetStream, or about the stream, says of all that is published:
// reach is none or destination.
Judgement judge_information(std::string_view stream, const Answer &answer) noexcept;
Judgement judge_no_jetstream() noexcept;

} // namespace outbox::nats
