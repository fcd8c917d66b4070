// franz-go; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
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

func open(bootstrap string, more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	check(err)
	return client
}

func create(ctx context.Context, bootstrap, topic string, rest []string) {
	enabled := "true"
	admin := kadm.NewClient(open(bootstrap))
	made, err := admin.CreateTopic(ctx, int32(number(rest[0])), -1, map[string]*string{"diskless.enable": &enabled}, topic)
	check(err)
	check(made.Err)
}

func remove(ctx context.Context, bootstrap, topic string, _ []string) {
	gone, err := kadm.NewClient(open(bootstrap)).DeleteTopic(ctx, topic)
	check(err)
	check(gone.Err)
}

func codec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

func produce(ctx context.Context, bootstrap, topic string, rest []string) {
	partitions, count, first := number(rest[0]), number(rest[1]), number(rest[4])
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec(rest[2])), kgo.ProducerLinger(5 * time.Millisecond)}
	if rest[3] != "1" {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
	}
	client := open(bootstrap, options...)
	defer client.Close()
	for n := 0; n < count; n++ {
		record := &kgo.Record{Topic: topic, Partition: int32(n % partitions), Value: []byte(fmt.Sprintf("value-%d", n)), Timestamp: time.UnixMilli(int64(first + n))}
		if n%5 != 0 {
			record.Key = []byte(fmt.Sprintf("key-%d", n%7))
		}
		if n%3 == 0 {
			record.Headers = []kgo.RecordHeader{{Key: "name", Value: []byte{0, 255}}, {Key: "other", Value: []byte("again")}}
		}
		place := n
		client.Produce(ctx, record, func(done *kgo.Record, err error) {
			check(err)
			say(map[string]any{"number": place, "partition": done.Partition, "offset": done.Offset})
		})
	}
	check(client.Flush(ctx))
}

func consume(ctx context.Context, bootstrap, topic string, rest []string) {
	client := open(bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(rest[1]), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	for seen := 0; seen < number(rest[0]); {
		found := client.PollFetches(ctx)
		check(found.Err0())
		found.EachRecord(func(one *kgo.Record) {
			headers := [][]any{}
			for _, header := range one.Headers {
				headers = append(headers, []any{header.Key, header.Value})
			}
			say(map[string]any{"partition": one.Partition, "offset": one.Offset, "key": one.Key, "value": string(one.Value), "headers": headers, "timestamp": one.Timestamp.UnixMilli()})
			seen++
		})
	}
	check(client.CommitUncommittedOffsets(ctx))
}

func seek(ctx context.Context, bootstrap, topic string, rest []string) {
	admin := kadm.NewClient(open(bootstrap))
	ends, err := admin.ListEndOffsets(ctx, topic)
	check(err)
	found, err := admin.ListOffsetsAfterMilli(ctx, int64(number(rest[0])), topic)
	check(err)
	found.Each(func(one kadm.ListedOffset) {
		check(one.Err)
		offset := one.Offset
		if end, _ := ends.Lookup(topic, one.Partition); offset == end.Offset {
			offset = -1 // it answers the end where nothing is that late
		}
		say(map[string]any{"partition": one.Partition, "offset": offset})
	})
}

func main() {
	switch os.Args[1] {
	case "write":
		write(os.Args[2], os.Args[3], number(os.Args[4]), os.Args[5], number(os.Args[6]))
		return
	case "follow":
		follow(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	words := map[string]func(context.Context, string, string, []string){"create": create, "delete": remove, "produce": produce, "consume": consume, "seek": seek}
	words[os.Args[1]](ctx, os.Args[2], os.Args[3], os.Args[4:])
}
