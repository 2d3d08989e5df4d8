import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.configuration.connectors.BoltConnector;
import org.neo4j.configuration.connectors.ConnectorPortRegister;
import org.neo4j.configuration.connectors.ConnectorType;
import org.neo4j.configuration.helpers.SocketAddress;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;
import org.neo4j.kernel.internal.GraphDatabaseAPI;

/**
 * One Neo4j of its own, told its folder, its Bolt port (0: a free one) and the password of the user neo4j.
 *
 * It prints "listening PORT" when it serves, and ends when its standard input does: so it never outlives the tests.
 */
public class Neo4jNode {
    public static void main(String[] arguments) throws Exception {
        PrintStream answer = System.out;
        System.setOut(System.err);  // what is logged must not wait for somebody who reads it
        Path folder = Path.of(arguments[0]);
        boolean isNew = Files.notExists(folder);
        DatabaseManagementService service = new DatabaseManagementServiceBuilder(folder)
            .setConfig(GraphDatabaseSettings.auth_enabled, true)
            .setConfig(GraphDatabaseSettings.pagecache_memory, 64L * 1024 * 1024)
            .setConfig(BoltConnector.enabled, true)
            .setConfig(BoltConnector.listen_address, new SocketAddress("127.0.0.1", Integer.parseInt(arguments[1])))
            .build();
        if (isNew) {
            service.database("system").executeTransactionally(
                "ALTER USER neo4j SET PASSWORD $password CHANGE NOT REQUIRED", Map.of("password", arguments[2]));
        }
        GraphDatabaseAPI database = (GraphDatabaseAPI) service.database("neo4j");
        ConnectorPortRegister ports = database.getDependencyResolver().resolveDependency(ConnectorPortRegister.class);
        answer.println("listening " + ports.getLocalAddress(ConnectorType.BOLT).getPort());
        waitForEnd();
        service.shutdown();
        System.exit(0);
    }

    private static void waitForEnd() throws IOException {
        while (System.in.read() != -1) {
            // Whatever is said is not for us: only the end counts.
        }
    }
}
