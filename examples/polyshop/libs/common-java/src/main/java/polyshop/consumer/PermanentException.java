package polyshop.consumer;

/**
 * What will never succeed: the event goes to its dead-letter topic at once. The message says why.
 */
public class PermanentException extends RuntimeException {
    public PermanentException(String message) {
        super(message);
    }

    public PermanentException(String message, Throwable cause) {
        super(message, cause);
    }
}
