package polyshop.service;

/** A request whose values make no sense. The message tells the caller which. */
public class InvalidRequestException extends RuntimeException {
    public InvalidRequestException(String message) {
        super(message);
    }

    /** @throws InvalidRequestException unless it holds */
    public static void require(boolean holds, String message) {
        if (!holds) {
            throw new InvalidRequestException(message);
        }
    }
}
