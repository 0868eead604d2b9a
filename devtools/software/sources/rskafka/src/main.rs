//! Copies a topic with rskafka, which has no groups: `rskafka BOOTSTRAP SOURCE SINK`.

use std::sync::Arc;
use std::time::Duration;

use client::client::consumer::{StartOffset, StreamConsumerBuilder};
use client::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use client::client::{Client, ClientBuilder};
use client::record::Record;
use futures::StreamExt;
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(200);

async fn partition(client: &Client, topic: &str, number: i32) -> PartitionClient {
    loop {
        match client.partition_client(topic, number, UnknownTopicHandling::Retry).await {
            Ok(found) => return found,
            Err(error) => eprintln!("{topic}-{number}: {error}"),
        }
        sleep(PAUSE).await;
    }
}

async fn copy(client: Arc<Client>, source: String, sink: String, number: i32) {
    let reading = Arc::new(partition(&client, &source, number).await);
    let writing = partition(&client, &sink, number).await;
    let mut next = 0;
    loop {
        let mut stream = StreamConsumerBuilder::new(Arc::clone(&reading), StartOffset::At(next))
            .with_max_wait_ms(500)
            .build();
        while let Some(read) = stream.next().await {
            let record = match read {
                Ok((record, _)) => record,
                Err(error) => {
                    eprintln!("{source}-{number}: {error}");
                    break;
                }
            };
            next = record.offset + 1;
            let copied = Record { headers: Default::default(), ..record.record };
            while let Err(error) = writing.produce(vec![copied.clone()], Compression::NoCompression).await {
                eprintln!("{sink}-{number}: {error}");
                sleep(PAUSE).await;
            }
        }
        sleep(PAUSE).await;
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let brokers = arguments[1].split(',').map(str::to_owned).collect();
    let client = Arc::new(ClientBuilder::new(brokers).build().await.expect("no broker answers"));
    let topics = client.list_topics().await.expect("the topics are not known");
    let topic = topics.iter().find(|topic| topic.name == arguments[2]).expect("the topic does not exist");
    let copies = topic.partitions.iter().map(|&number| {
        tokio::spawn(copy(Arc::clone(&client), arguments[2].clone(), arguments[3].clone(), number))
    });
    futures::future::join_all(copies.collect::<Vec<_>>()).await;
}
