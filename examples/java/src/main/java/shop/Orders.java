package shop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.Map;
import java.util.UUID;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/**
 * The order service: reads an order a line, {"customer": "ada", "cents": 2500}, and answers with its id. A line of
 * stdin stands for an HTTP request. PGHOST, PGPORT, PGDATABASE, PGUSER and PGPASSWORD name the database.
 */
class Orders {
    private static final ObjectMapper JSON =
            new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    // begin: emit
    /** Emits in the session's transaction: there is an event if, and only if, that commits. */
    static UUID emit(Session session, String aggregateType, String aggregateId, String eventType, Object payload) {
        session.flush(); // Hibernate does not know what a query of SQL is about, and the order of statements counts
        return session.createNativeQuery("select outbox.emit(:type, :id, :event, cast(:payload as jsonb))", UUID.class)
                .setParameter("type", aggregateType)
                .setParameter("id", aggregateId)
                .setParameter("event", eventType)
                .setParameter("payload", JSON.valueToTree(payload).toString())
                .getSingleResult();
    }

    static long placeOrder(Session session, String customer, long cents) {
        var order = new Order(customer, cents);
        session.persist(order); // inserts the row now, as its id comes from the database
        var payload = Map.of("order_id", order.id, "customer", customer, "cents", cents);
        emit(session, "order", order.id.toString(), "order.placed", payload);
        return order.id;
    }
    // end: emit

    static String handle(SessionFactory sessions, String line) {
        JsonNode request;
        try {
            request = JSON.readTree(line);
        } catch (JsonProcessingException error) {
            return "refused: " + error.getOriginalMessage();
        }
        var customer = request.path("customer");
        var cents = request.path("cents");
        // asLong() would make 1 of 1.99, and 0 of what is no number.
        if (!customer.isTextual() || !cents.isIntegralNumber() || !cents.canConvertToLong()) {
            return "refused: an order has a customer and cents";
        }
        try {
            // Commits at its end, and rolls back on any exception.
            return Long.toString(sessions.fromTransaction(
                    session -> placeOrder(session, customer.textValue(), cents.longValue())));
        } catch (RuntimeException error) { // neither order nor event
            // About data or, also from the commit, a constraint; Hibernate wraps them in several classes.
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof SQLException refusal && refusal.getSQLState() != null
                        && refusal.getSQLState().matches("2[23].*")) {
                    return "refused: " + refusal.getMessage().lines().findFirst().orElse("");
                }
            }
            throw error;
        }
    }

    public static void main(String[] arguments) throws IOException {
        var environment = System.getenv();
        var configuration = new Configuration()
                .addAnnotatedClass(Order.class)
                .setProperty("hibernate.connection.url", Database.url(environment))
                .setProperty("hibernate.connection.username", environment.get("PGUSER"))
                .setProperty("hibernate.connection.password", Database.password(environment));
        try (var sessions = configuration.buildSessionFactory();
                var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(handle(sessions, line));
            }
        }
    }
}
