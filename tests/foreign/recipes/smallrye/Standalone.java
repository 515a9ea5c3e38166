package foreign;

import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.inject.se.SeContainerInitializer;
import org.eclipse.microprofile.config.ConfigProvider;
import org.eclipse.microprofile.reactive.messaging.Incoming;

/** A listener as those of App, without Quarkus. System properties configure its channel. */
@ApplicationScoped
public class Standalone {
    @Incoming("orders")
    public void handle(String value) {
        if (value.contains("nocause")) throw new IllegalArgumentException("no stock for " + value);
        if (value.contains("cause")) throw new RuntimeException("cannot charge", new java.io.IOException("bank is down"));
    }

    public static void main(String[] arguments) throws Exception {
        ConfigProvider.getConfig(); // of this class loader, before a thread of another one asks for it
        SeContainerInitializer.newInstance().addBeanClasses(Standalone.class).initialize();
        Thread.currentThread().join();
    }
}
