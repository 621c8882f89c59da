package polyshop.auth;

import org.springframework.boot.autoconfigure.SpringBootApplication;
import polyshop.service.PolyshopService;

/** auth-service: registers users. */
@SpringBootApplication(proxyBeanMethods = false)
public class AuthApplication {
    public static final String SERVICE = "auth-service";

    public static void main(String[] arguments) {
        PolyshopService.main(AuthApplication.class, SERVICE);
    }
}
