#!/usr/bin/env bash
# The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.
# PGHOST, PGDATABASE, PGUSER and so on name the database.
set -euo pipefail

# Every line becomes one call. Base64 has no character that psql or SQL could take for something else, as they would
# some in a text in quotes: psql forgets the rest of a line that holds a NUL, and with it the quote at its end.
# Answers are numbers, the order's or an error's class and kind, as messages may quote what was sent.
jq --raw-input --unbuffered --raw-output '"select place_order(decode(\u0027\(@base64)\u0027, \u0027base64\u0027));"' |
    psql --no-psqlrc --quiet --tuples-only --no-align --set VERBOSITY=sqlstate --set ON_ERROR_STOP=0 2>&1 |
    sed --unbuffered --regexp-extended 's/^psql:[^ ]* //; s/^ERROR: *(22|23|54)/refused: \1/'
