package shop;

import java.util.Map;

/** The JDBC driver does not know the variables that libpq's clients know. */
class Database {
    static String url(Map<String, String> environment) {
        return "jdbc:postgresql://%s:%s/%s".formatted(environment.getOrDefault("PGHOST", "localhost"),
                environment.getOrDefault("PGPORT", "5432"), environment.get("PGDATABASE"));
    }

    static String password(Map<String, String> environment) {
        return environment.getOrDefault("PGPASSWORD", "");
    }
}
