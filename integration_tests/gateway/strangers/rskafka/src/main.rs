// rskafka, which is pure Rust, and has neither groups, nor settings of topics, nor idempotent producers; see ../../README.md.

use std::collections::BTreeMap;
use std::process::exit;

use chrono::{TimeZone, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

type Failure = Box<dyn std::error::Error>;

const UNSUPPORTED: i32 = 3;

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in data.chunks(3) {
        let bits = (0..3).fold(0u32, |sum, place| sum << 8 | u32::from(*chunk.get(place).unwrap_or(&0)));
        for place in 0..4 {
            let digit = if place <= chunk.len() { DIGITS[(bits >> (18 - 6 * place)) as usize & 63] as char } else { '=' };
            text.push(digit);
        }
    }
    text
}

async fn partition(client: &Client, topic: &str, number: i32) -> Result<PartitionClient, Failure> {
    Ok(client.partition_client(topic, number, UnknownTopicHandling::Retry).await?)
}

async fn partitions(client: &Client, topic: &str) -> Result<Vec<i32>, Failure> {
    let topics = client.list_topics().await?;
    Ok(topics.into_iter().find(|one| one.name == topic).map(|one| one.partitions.into_iter().collect()).unwrap_or_default())
}

fn record(number: i64, first_ms: i64) -> Record {
    let mut headers = BTreeMap::new();
    if number % 3 == 0 {
        headers.insert("name".to_string(), vec![0, 255]);
        headers.insert("other".to_string(), b"again".to_vec());
    }
    Record {
        key: (number % 5 != 0).then(|| format!("key-{}", number % 7).into_bytes()),
        value: Some(format!("value-{number}").into_bytes()),
        headers,
        timestamp: Utc.timestamp_millis_opt(first_ms + number).unwrap(),
    }
}

async fn produce(client: &Client, topic: &str, rest: &[String]) -> Result<(), Failure> {
    let (count, first_ms): (i64, i64) = (rest[1].parse()?, rest[4].parse()?);
    let partitions: i64 = rest[0].parse()?;
    let compression = match rest[2].as_str() {
        "gzip" => Compression::Gzip,
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    if rest[3] == "1" {
        exit(UNSUPPORTED);
    }
    for place in 0..partitions {
        let numbers: Vec<i64> = (0..count).filter(|number| number % partitions == place).collect();
        let records = numbers.iter().map(|number| record(*number, first_ms)).collect();
        let produced = partition(client, topic, place as i32).await?.produce(records, compression).await?;
        for (number, offset) in numbers.iter().zip(produced) {
            println!("{{\"number\": {number}, \"partition\": {place}, \"offset\": {offset}}}");
        }
    }
    Ok(())
}

async fn consume(client: &Client, topic: &str, rest: &[String]) -> Result<(), Failure> {
    let wanted: usize = rest[0].parse()?;
    let mut seen = 0;
    for number in partitions(client, topic).await? {
        let reader = partition(client, topic, number).await?;
        let mut offset = reader.get_offset(OffsetAt::Earliest).await?;
        let end = reader.get_offset(OffsetAt::Latest).await?;
        while offset < end {
            let (records, _) = reader.fetch_records(offset, 1..1_000_000, 500).await?;
            for one in records.into_iter().filter(|one| one.offset >= offset).collect::<Vec<_>>() {
                let key = one.record.key.map_or("null".to_string(), |key| format!("\"{}\"", base64(&key)));
                let value = String::from_utf8(one.record.value.unwrap_or_default())?;
                let headers: Vec<String> = one.record.headers.iter().map(|(name, value)| format!("[\"{name}\", \"{}\"]", base64(value))).collect();
                println!(
                    "{{\"partition\": {number}, \"offset\": {}, \"key\": {key}, \"value\": \"{value}\", \"headers\": [{}], \"timestamp\": {}}}",
                    one.offset, headers.join(", "), one.record.timestamp.timestamp_millis()
                );
                offset = one.offset + 1;
                seen += 1;
            }
        }
    }
    if seen < wanted {
        exit(1);
    }
    Ok(())
}

async fn seek(client: &Client, topic: &str, rest: &[String]) -> Result<(), Failure> {
    let time = Utc.timestamp_millis_opt(rest[0].parse()?).unwrap();
    for number in partitions(client, topic).await? {
        let offset = partition(client, topic, number).await?.get_offset(OffsetAt::Timestamp(time)).await?;
        println!("{{\"partition\": {number}, \"offset\": {offset}}}");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let client = ClientBuilder::new(words[2].split(',').map(str::to_string).collect()).build().await?;
    match words[1].as_str() {
        "delete" => Ok(client.controller_client()?.delete_topic(&words[3], 60_000).await?),
        "produce" => produce(&client, &words[3], &words[4..]).await,
        "consume" => consume(&client, &words[3], &words[4..]).await,
        "seek" => seek(&client, &words[3], &words[4..]).await,
        _ => exit(UNSUPPORTED),
    }
}
