#!/usr/bin/env bash
# The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id.
# PGHOST, PGDATABASE, PGUSER and so on name the database.
set -euo pipefail

# Every line becomes one call. Within quotes only the quote itself has a meaning.
jq --unbuffered --raw-output '"select place_order(\u0027\(.customer | gsub("\u0027"; "\u0027\u0027"))\u0027, \(.cents | tonumber));"' |
    psql --no-psqlrc --quiet --tuples-only --no-align --set VERBOSITY=terse --set ON_ERROR_STOP=0 2>&1 |
    sed --unbuffered 's/^psql:[^ ]* //; s/^ERROR: */refused: /'
