package polyshop.outbox;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.TimeoutException;

/** The real producer, with a network that may do something at every send. */
final class UnreliableProducer {
    enum Network { WORKS, LOSES_THE_MESSAGE, LOSES_THE_ACKNOWLEDGEMENT }

    private UnreliableProducer() {}

    @SuppressWarnings("unchecked")
    static Producer<byte[], byte[]> over(
        Producer<byte[], byte[]> real, Function<ProducerRecord<byte[], byte[]>, Network> network
    ) {
        return (Producer<byte[], byte[]>) Proxy.newProxyInstance(
            Producer.class.getClassLoader(), new Class<?>[] {Producer.class},
            (proxy, method, arguments) -> {
                Network now = Network.WORKS;
                if (method.getName().equals("send")) {
                    now = network.apply((ProducerRecord<byte[], byte[]>) arguments[0]);
                }
                if (now == Network.LOSES_THE_MESSAGE) {
                    return lost();
                }
                try {
                    Object sent = method.invoke(real, arguments);
                    if (now == Network.LOSES_THE_ACKNOWLEDGEMENT) {
                        ((Future<?>) sent).get();
                        return lost();
                    }
                    return sent;
                } catch (InvocationTargetException error) {
                    throw error.getCause();
                }
            });
    }

    /** Known after a while only, as the real producer knows it. */
    private static Future<?> lost() {
        return CompletableFuture.runAsync(
            () -> {
                throw new TimeoutException("the network was cut");
            }, CompletableFuture.delayedExecutor(5, TimeUnit.MILLISECONDS));
    }
}
