package polyshop.service;

import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.dao.DataIntegrityViolationException;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.http.converter.HttpMessageNotReadableException;
import org.springframework.web.ErrorResponse;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.RestControllerAdvice;

/** What a caller is told when a request is not carried out, as {@code {"error": …}}. */
@RestControllerAdvice
public class Refusals {
    private static final Logger LOG = LoggerFactory.getLogger(Refusals.class);

    @ExceptionHandler
    ResponseEntity<Map<String, String>> refuse(InvalidRequestException error) {
        return answer(HttpStatus.UNPROCESSABLE_ENTITY, error.getMessage());
    }

    @ExceptionHandler
    ResponseEntity<Map<String, String>> refuse(HttpMessageNotReadableException error) {
        return answer(
            HttpStatus.UNPROCESSABLE_ENTITY, "the body is not the JSON that is asked for");
    }

    @ExceptionHandler
    ResponseEntity<Map<String, String>> refuse(DuplicateKeyException error) {
        return answer(HttpStatus.CONFLICT, "it exists already");
    }

    @ExceptionHandler
    ResponseEntity<Map<String, String>> refuse(DataIntegrityViolationException error) {
        return answer(
            HttpStatus.UNPROCESSABLE_ENTITY, "the database refuses a value of the request");
    }

    @ExceptionHandler
    ResponseEntity<Map<String, String>> refuse(Exception error) {
        if (error instanceof ErrorResponse known) {
            HttpStatus status = HttpStatus.valueOf(known.getStatusCode().value());
            return answer(status, known.getBody().getDetail());
        }
        LOG.atError().addKeyValue("error", error.toString()).log("request failed");
        return answer(HttpStatus.SERVICE_UNAVAILABLE, "not carried out; please try again");
    }

    private static ResponseEntity<Map<String, String>> answer(HttpStatus status, String problem) {
        LOG.atInfo().addKeyValue("status", status.value()).log("request refused");
        return ResponseEntity.status(status).body(Map.of("error", String.valueOf(problem)));
    }
}
