// KafkaJS; see ../README.md.

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [word, bootstrap, topic, ...rest] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "kafkajs", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const say = (fields) => console.log(JSON.stringify(fields));
const base64 = (data) => (data === null ? null : Buffer.from(data).toString("base64"));

const words = {
  async create(partitions) {
    const admin = kafka.admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions), configEntries: [{ name: "diskless.enable", value: "true" }] }] });
    await admin.disconnect();
  },
  async delete() {
    const admin = kafka.admin();
    await admin.connect();
    await admin.deleteTopics({ topics: [topic] });
    await admin.disconnect();
  },
  async produce(partitions, count, compression, idempotent, firstMs) {
    if (!["none", "gzip"].includes(compression)) process.exit(3);
    const producer = kafka.producer({ idempotent: idempotent === "1", maxInFlightRequests: 1 });
    await producer.connect();
    const places = new Map();
    const messages = [];
    for (let n = 0; n < Number(count); n++) {
      const partition = n % Number(partitions);
      places.set(partition, [...(places.get(partition) ?? []), n]);
      messages.push({
        partition,
        key: n % 5 === 0 ? null : `key-${n % 7}`,
        value: `value-${n}`,
        timestamp: String(Number(firstMs) + n),
        headers: n % 3 === 0 ? { name: Buffer.from([0, 255]), other: "again" } : {},
      });
    }
    const codec = compression === "gzip" ? CompressionTypes.GZIP : CompressionTypes.None;
    for (const answer of await producer.send({ topic, messages, acks: -1, compression: codec })) {
      places.get(answer.partition).forEach((number, place) => say({ number, partition: answer.partition, offset: Number(answer.baseOffset) + place }));
    }
    await producer.disconnect();
  },
  async consume(count, groupId) {
    const consumer = kafka.consumer({ groupId });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    let seen = 0;
    let done;
    const all = new Promise((resolve) => (done = resolve));
    const late = setTimeout(() => process.exit(1), 60_000);
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [name, base64(value)]);
        const { offset, key, value, timestamp } = message;
        say({ partition, offset: Number(offset), key: base64(key), value: value.toString(), headers, timestamp: Number(timestamp) });
        if (++seen === Number(count)) done();
      },
    });
    await all;
    clearTimeout(late);
    await consumer.disconnect();
  },
  async seek(timestamp) {
    const admin = kafka.admin();
    await admin.connect();
    const ends = new Map((await admin.fetchTopicOffsets(topic)).map((one) => [one.partition, Number(one.offset)]));
    for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp))) {
      say({ partition, offset: Number(offset) === ends.get(partition) ? -1 : Number(offset) }); // it answers the end where nothing is that late
    }
    await admin.disconnect();
  },
};

words[word](...rest).catch((error) => {
  console.error(error);
  process.exit(2);
});
