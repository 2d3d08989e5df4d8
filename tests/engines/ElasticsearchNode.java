import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.http.HttpServerTransport;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * One Elasticsearch node of its own, told its home, its data folder and its HTTP port (0: a free one).
 *
 * It prints "listening PORT" when it serves, and ends when its standard input does: so it never outlives the tests.
 */
public class ElasticsearchNode {
    public static void main(String[] arguments) throws Exception {
        PrintStream answer = System.out;
        System.setOut(System.err);  // what is logged must not wait for somebody who reads it
        Path home = Path.of(arguments[0]);
        Path data = Path.of(arguments[1]);
        Settings settings = Settings.builder()
            .put("path.home", home)
            .put("path.data", data)
            .put("path.logs", data)
            .put("cluster.name", "tests")
            .put("node.name", "tests")
            .put("discovery.type", "single-node")
            .put("http.host", "127.0.0.1")
            .put("http.port", arguments[2])
            .put("transport.host", "127.0.0.1")
            .put("transport.port", "0")
            // The machine's disk may be nearly full, and its processors are the tests'.
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .put("node.processors", 2)
            .build();
        LogConfigurator.configureWithoutConfig(settings);
        PluginsLoader plugins = PluginsLoader.createPluginsLoader(
            PluginsLoader.loadModulesBundles(home.resolve("modules")), Set.of(), Map.of(), false);
        try (Node node = new Node(new Environment(settings, home.resolve("config")), plugins)) {
            node.start();
            HttpServerTransport http = node.injector().getInstance(HttpServerTransport.class);
            answer.println("listening " + http.boundAddress().publishAddress().getPort());
            waitForEnd();
        }
        System.exit(0);
    }

    private static void waitForEnd() throws IOException {
        while (System.in.read() != -1) {
            // Whatever is said is not for us: only the end counts.
        }
    }
}
