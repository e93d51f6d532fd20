#include "certificates.h"

#include "bgworker/sinks/passphrase.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>

namespace outbox::http
{

namespace
{

template <typename T, void (*f)(T *)> struct Freed
{
    void operator()(T *what) const noexcept { f(what); }
};

using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Freed<BIO, BIO_free_all>>;

// What fails below says so on a list that libcurl reads as well.
class Errors
{
public:
    Errors() noexcept { ERR_set_mark(); }
    ~Errors() { ERR_pop_to_mark(); }
    Errors(const Errors &) = delete;
    Errors &operator=(const Errors &) = delete;
};

// Without it OpenSSL asks at the terminal.
int
no_passphrase(char *, int, int, void *) noexcept
{
    return -1;
}

Bio
open(const std::string &text) noexcept
{
    return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

Certificate
first_certificate(const std::string &pem) noexcept
{
    const Bio bio = open(pem);
    return Certificate(bio ? PEM_read_bio_X509_AUX(bio.get(), nullptr, no_passphrase, nullptr)
                           : nullptr);
}

} // namespace

// As libcurl reads them, to which one bad block makes all of them bad.
const char *
fault_of_authorities(const std::string &pem)
{
    const Errors errors;
    const Bio bio = open(pem);
    STACK_OF(X509_INFO) *all =
        bio ? PEM_X509_INFO_read_bio(bio.get(), nullptr, no_passphrase, nullptr) : nullptr;
    bool has_one = false;
    for (int i = 0; all != nullptr && i < sk_X509_INFO_num(all); i++)
        has_one = has_one || sk_X509_INFO_value(all, i)->x509 != nullptr;
    const bool is_whole = all != nullptr;
    sk_X509_INFO_pop_free(all, X509_INFO_free);
    return !is_whole ? "a part of it is no certificate in PEM"
           : has_one ? nullptr
                     : "it has no certificate in PEM";
}

const char *
fault_of_certificate(const std::string &pem, std::int64_t &valid_until)
{
    const Errors errors;
    const Certificate certificate = first_certificate(pem);
    if (!certificate)
        return "it has no certificate in PEM";
    std::tm time = {};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &time) != 1)
        return "its certificate has no valid end";
    valid_until = timegm(&time);
    return nullptr;
}

const char *
fault_of_key(const std::string &pem, const std::string &certificate)
{
    const Errors errors;
    if (has_passphrase(pem))
        return kKeyHasPassphrase;
    const Bio bio = open(pem);
    const Key key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)
                      : nullptr);
    if (!key)
        return "it has no key in PEM";
    const Certificate its = first_certificate(certificate);
    return its && X509_check_private_key(its.get(), key.get()) == 1
               ? nullptr
               : "the key is not that of the certificate in cert_file";
}

} // namespace outbox::http
