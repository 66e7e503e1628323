import io.openlineage.client.OpenLineage;
import io.openlineage.client.OpenLineageClient;
import io.openlineage.client.transports.ApiKeyTokenProvider;
import io.openlineage.client.transports.HttpConfig;
import io.openlineage.client.transports.HttpTransport;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.ZonedDateTime;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.logging.LogManager;

/**
 * The real OpenLineage client for Java, told line by line on standard input what to do; words are parted by tabs, "-" stands
 * for none.
 *
 * <p>{@code client URL TOKEN gzip HEADER=VALUE} makes a client, and {@code emit NAMESPACE RUN PADDING} sends an event by it.
 * Each line is answered by one: how many seconds it took, and what the client threw, if it did.
 */
public class Send {
  private static final OpenLineage EVENTS = new OpenLineage(URI.create("https://example.org/totals"));

  private OpenLineageClient client;

  public static void main(String[] arguments) throws Exception {
    // A library of the client warns of its metrics whenever a second client is made.
    LogManager.getLogManager().reset();
    Send send = new Send();
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(send.carryOut(line.split("\t")));
    }
  }

  private String carryOut(String[] words) {
    long began = System.nanoTime();
    String thrown = "";
    try {
      if (words[0].equals("client")) {
        client = OpenLineageClient.builder().transport(new HttpTransport(config(words))).build();
      } else {
        client.emit(event(words[1], words[2], Integer.parseInt(words[3])));
      }
    } catch (Throwable failure) {
      thrown = failure.getClass().getSimpleName() + ": " + failure.getMessage();
    }
    double seconds = (System.nanoTime() - began) / 1e9;
    return String.format(Locale.ROOT, "%.3f\t%s", seconds, thrown.replaceAll("\\s+", " "));
  }

  private static HttpConfig config(String[] words) {
    HttpConfig config = new HttpConfig();
    config.setUrl(URI.create(words[1]));
    if (!words[2].equals("-")) {
      ApiKeyTokenProvider token = new ApiKeyTokenProvider();
      token.setApiKey(words[2]);
      config.setAuth(token);
    }
    if (words[3].equals("gzip")) {
      config.setCompression(HttpConfig.Compression.GZIP);
    }
    if (!words[4].equals("-")) {
      String[] header = words[4].split("=", 2);
      config.setHeaders(Map.of(header[0], header[1]));
    }
    return config;
  }

  private static OpenLineage.RunEvent event(String namespace, String run, int padding) {
    OpenLineage.JobBuilder job = EVENTS.newJobBuilder().namespace(namespace).name("totals");
    if (padding > 0) {
      OpenLineage.DocumentationJobFacet text =
          EVENTS.newDocumentationJobFacetBuilder().description("x".repeat(padding)).build();
      job.facets(EVENTS.newJobFacetsBuilder().documentation(text).build());
    }
    return EVENTS
        .newRunEventBuilder()
        .eventType(OpenLineage.RunEvent.EventType.COMPLETE)
        .eventTime(ZonedDateTime.now())
        .run(EVENTS.newRunBuilder().runId(UUID.fromString(run)).build())
        .job(job.build())
        .inputs(List.of(EVENTS.newInputDatasetBuilder().namespace("warehouse").name("public.orders").build()))
        .outputs(List.of(EVENTS.newOutputDatasetBuilder().namespace("warehouse").name("public.totals").build()))
        .build();
  }
}
