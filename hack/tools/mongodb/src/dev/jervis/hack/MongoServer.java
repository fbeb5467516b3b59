package dev.jervis.hack;

import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import io.netty.channel.Channel;
import java.util.List;
import java.util.Set;

/** A MongoDB-wire server on one file: {@code MongoServer HOST PORT FILE}. */
public final class MongoServer {
    /** Current drivers refuse the versions that the library knows by itself. */
    private static final MongoVersion VERSION = new MongoVersion() {
        @Override public List<Integer> getVersionArray() { return List.of(5, 0, 0); }
        @Override public int getWireVersion() { return 13; }
    };

    private static final Set<String> READS = Set.of(
            "aggregate", "buildinfo", "count", "distinct", "find", "getmore", "hello", "ismaster", "killcursors", "listcollections",
            "listdatabases", "listindexes", "ping");

    /** The library flushes once a second; here an acknowledged write is in the file before its answer is sent. */
    private static final class Durable extends H2Backend {
        Durable(String file) { super(file); }

        @Override public Document handleMessage(MongoMessage message) {
            Document answer = super.handleMessage(message);
            if (!READS.contains(message.getDocument().keySet().iterator().next().toLowerCase())) commit();
            return answer;
        }
    }

    public static void main(String[] arguments) {
        var backend = new Durable(arguments[2]);
        backend.version(VERSION);
        var server = new de.bwaldvogel.mongo.MongoServer(backend);
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
    }
}
