// sarama; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const wait = time.Minute

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	check(err)
	fmt.Println(string(line))
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	return made
}

func servers(bootstrap string) []string {
	return strings.Split(bootstrap, ",")
}

func create(bootstrap, topic string, rest []string) {
	admin, err := sarama.NewClusterAdmin(servers(bootstrap), config())
	check(err)
	defer admin.Close()
	enabled := "true"
	detail := &sarama.TopicDetail{NumPartitions: int32(number(rest[0])), ReplicationFactor: 1, ConfigEntries: map[string]*string{"diskless.enable": &enabled}}
	check(admin.CreateTopic(topic, detail, false))
}

func remove(bootstrap, topic string, _ []string) {
	admin, err := sarama.NewClusterAdmin(servers(bootstrap), config())
	check(err)
	defer admin.Close()
	check(admin.DeleteTopic(topic))
}

func produce(bootstrap, topic string, rest []string) {
	partitions, count, first := number(rest[0]), number(rest[1]), number(rest[4])
	given := config()
	given.Producer.Partitioner = sarama.NewManualPartitioner
	given.Producer.RequiredAcks = sarama.WaitForAll
	given.Producer.Return.Successes = true
	given.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[rest[2]]
	if rest[3] == "1" {
		given.Producer.Idempotent = true
		given.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(servers(bootstrap), given)
	check(err)
	defer producer.Close()
	messages := []*sarama.ProducerMessage{}
	for n := 0; n < count; n++ {
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: int32(n % partitions), Value: sarama.StringEncoder(fmt.Sprintf("value-%d", n)),
			Timestamp: time.UnixMilli(int64(first + n)), Metadata: n,
		}
		if n%5 != 0 {
			message.Key = sarama.StringEncoder(fmt.Sprintf("key-%d", n%7))
		}
		if n%3 == 0 {
			message.Headers = []sarama.RecordHeader{{Key: []byte("name"), Value: []byte{0, 255}}, {Key: []byte("other"), Value: []byte("again")}}
		}
		messages = append(messages, message)
	}
	check(producer.SendMessages(messages))
	for n, message := range messages {
		say(map[string]any{"number": n, "partition": message.Partition, "offset": message.Offset})
	}
}

var taken sync.Mutex // partitions are read side by side

type reader struct {
	seen, wanted int
	stop         context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case one, open := <-claim.Messages():
			if !open {
				return nil
			}
			taken.Lock()
			r.take(session, one)
			taken.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (r *reader) take(session sarama.ConsumerGroupSession, one *sarama.ConsumerMessage) {
	if r.seen == r.wanted {
		return
	}
	headers := [][]any{}
	for _, header := range one.Headers {
		headers = append(headers, []any{string(header.Key), header.Value})
	}
	say(map[string]any{"partition": one.Partition, "offset": one.Offset, "key": one.Key, "value": string(one.Value), "headers": headers, "timestamp": one.Timestamp.UnixMilli()})
	session.MarkMessage(one, "")
	if r.seen++; r.seen == r.wanted {
		session.Commit()
		r.stop()
	}
}

func consume(bootstrap, topic string, rest []string) {
	given := config()
	given.Consumer.Offsets.Initial = sarama.OffsetOldest
	given.Consumer.Offsets.AutoCommit.Enable = false
	group, err := sarama.NewConsumerGroup(servers(bootstrap), rest[1], given)
	check(err)
	defer group.Close()
	ctx, stop := context.WithTimeout(context.Background(), wait)
	defer stop()
	all := &reader{wanted: number(rest[0]), stop: stop}
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{topic}, all))
	}
	if all.seen < all.wanted {
		os.Exit(1)
	}
}

func seek(bootstrap, topic string, rest []string) {
	client, err := sarama.NewClient(servers(bootstrap), config())
	check(err)
	defer client.Close()
	partitions, err := client.Partitions(topic)
	check(err)
	for _, partition := range partitions {
		offset, err := client.GetOffset(topic, partition, int64(number(rest[0])))
		check(err)
		say(map[string]any{"partition": partition, "offset": offset})
	}
}

func main() {
	words := map[string]func(string, string, []string){"create": create, "delete": remove, "produce": produce, "consume": consume, "seek": seek}
	words[os.Args[1]](os.Args[2], os.Args[3], os.Args[4:])
}
