/*
 * Copies a topic with a route of Camel: CamelCopy BOOTSTRAP SOURCE SINK FOLDER. It runs until it is ended.
 */

import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.main.Main;

public class CamelCopy {
    public static void main(String[] arguments) throws Exception {
        Main main = new Main();
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                onException(Exception.class).maximumRedeliveries(-1).redeliveryDelay(200);
                from("kafka:" + arguments[1] + "?brokers=" + arguments[0] + "&groupId=camel-copy"
                        + "&autoOffsetReset=earliest&autoCommitEnable=false&allowManualCommit=true&breakOnFirstError=true")
                    .removeHeaders("*")
                    .to("kafka:" + arguments[2] + "?brokers=" + arguments[0] + "&requestRequiredAcks=all");
            }
        });
        main.run();
    }
}
