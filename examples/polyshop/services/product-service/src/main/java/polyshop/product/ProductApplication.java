package polyshop.product;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import polyshop.service.PolyshopService;

/** product-service: the catalogue. */
@SpringBootApplication(proxyBeanMethods = false)
public class ProductApplication {
    public static final String SERVICE = "product-service";

    public static void main(String[] arguments) {
        PolyshopService.main(ProductApplication.class, SERVICE);
    }
}
