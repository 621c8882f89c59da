package polyshop.consumer;

import java.sql.SQLException;
import org.postgresql.util.PSQLException;

/**
 * Tells permanent errors from temporary ones. Only what the event itself is at fault for is
 * permanent. All else is temporary, also what is not known: an outage, or a table that is not there
 * yet, must not empty a topic into its dead letters.
 */
final class Failures {
    private Failures() {}

    static boolean isPermanent(RuntimeException error) {
        return error instanceof PermanentException || isRefusedByTheDatabase(error);
    }

    /** Classes 22 and 23: a value that its column cannot hold, or that a constraint refuses. */
    private static boolean isRefusedByTheDatabase(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException sql && sql.getSQLState() != null) {
                return sql.getSQLState().startsWith("22") || sql.getSQLState().startsWith("23");
            }
        }
        return false;
    }

    /** In one line. Of a database's error without its details, which hold values. */
    static String message(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof PSQLException sql && sql.getServerErrorMessage() != null) {
                return sql.getServerErrorMessage().getMessage();
            }
        }
        String message = error.getMessage() == null
            ? error.getClass().getSimpleName() : error.getMessage();
        return message.lines().findFirst().orElse("");
    }
}
