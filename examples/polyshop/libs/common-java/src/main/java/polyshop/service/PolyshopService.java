package polyshop.service;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.Banner;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.support.GenericApplicationContext;

/** Starts a service and ends it: with 0 when it is told to, with 1 when it cannot go on. */
public final class PolyshopService {
    private static final AtomicInteger STATUS = new AtomicInteger();

    private PolyshopService() {}

    /** Runs until SIGTERM or SIGINT. */
    public static void main(Class<?> application, String service) {
        System.setProperty("polyshop.service", service);
        try {
            Settings settings = Settings.from(System.getenv(), service);
            // A JVM that a signal ends has the signal's status, but being told to stop is no error.
            SpringApplication.getShutdownHandlers()
                .add(() -> Runtime.getRuntime().halt(STATUS.get()));
            configure(application, settings).run();
        } catch (RuntimeException error) {
            LoggerFactory.getLogger(application).atError().addKeyValue("error", rootMessage(error))
                .log("cannot run");
            fail();
        }
    }

    /** The service with these settings, not yet running. */
    public static SpringApplication configure(Class<?> application, Settings settings) {
        SpringApplication spring = new SpringApplication(application);
        spring.setBannerMode(Banner.Mode.OFF);
        spring.setLogStartupInfo(false);
        spring.setDefaultProperties(properties(settings));
        ApplicationContextInitializer<GenericApplicationContext> known =
            context -> context.registerBean(Settings.class, () -> settings);
        spring.addInitializers(known);
        return spring;
    }

    private static Map<String, Object> properties(Settings settings) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("spring.application.name", settings.service());
        properties.put("spring.jmx.enabled", false);
        properties.put("spring.main.log-startup-info", false);
        properties.put("server.address", settings.listenHost());
        properties.put("server.port", settings.listenPort());
        properties.put("server.shutdown", "graceful");
        properties.put("server.tomcat.threads.max", 16);
        properties.put("server.tomcat.threads.min-spare", 2);
        properties.put("spring.lifecycle.timeout-per-shutdown-phase", "25s");
        return properties;
    }

    /** Ends the process with 1, and what runs in it as if it were told to stop. */
    static void fail() {
        STATUS.set(1);
        new Thread(() -> System.exit(1), "exit").start();
    }

    private static String rootMessage(Throwable error) {
        Throwable root = error;
        while (root.getCause() != null) {
            root = root.getCause();
        }
        return root.getMessage();
    }
}
