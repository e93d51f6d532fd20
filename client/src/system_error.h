// What the operating system refuses.
#pragma once

#include <string>

#include "outbox/error.h"

namespace outbox::v0::detail
{

// As std::system_error, which callers of the library would not expect.
class SystemError : public Error
{
public:
    // `number` is that of errno. code() is "53000" where descriptors, threads or memory are short,
    // "58030" otherwise.
    SystemError(const std::string &what, int number);

    int number() const noexcept { return number_; }

private:
    int number_;
};

} // namespace outbox::v0::detail
