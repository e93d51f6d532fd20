#include "system_error.h"

#include <cerrno>
#include <system_error>

namespace outbox::v0::detail
{

namespace
{

bool
is_shortage(int number)
{
    return number == EMFILE || number == ENFILE || number == EAGAIN || number == ENOMEM;
}

} // namespace

SystemError::SystemError(const std::string &what, int number)
    : Error(what + ": " + std::generic_category().message(number),
            is_shortage(number) ? "53000" : "58030"),
      number_(number)
{
}

} // namespace outbox::v0::detail
