package polyshop.testing;

import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A service with nothing of its own. */
@SpringBootApplication(proxyBeanMethods = false)
public class TestApplication {}
