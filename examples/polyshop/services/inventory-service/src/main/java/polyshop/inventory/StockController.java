package polyshop.inventory;

import static polyshop.service.InvalidRequestException.require;

import java.util.Map;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RestController;

@RestController
class StockController {
    record SetStock(long quantity) {}

    private final JdbcClient database;

    StockController(JdbcClient database) {
        this.database = database;
    }

    /** How much of a product there is, whatever there was. */
    @PutMapping("/stock/{productId}")
    Map<String, Object> set(@PathVariable String productId, @RequestBody SetStock stock) {
        require(stock.quantity() >= 0, "a quantity is not negative");
        database.sql("""
            INSERT INTO stock (product_id, quantity) VALUES (?, ?)
            ON CONFLICT (product_id) DO UPDATE SET quantity = excluded.quantity""")
            .params(productId, stock.quantity()).update();
        return Map.of("productId", productId, "quantity", stock.quantity());
    }
}
