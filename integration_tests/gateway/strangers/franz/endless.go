// The words of runs under faults, which end with SIGTERM; see ../README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var saying sync.Mutex

func tell(fields map[string]any) {
	saying.Lock()
	defer saying.Unlock()
	fields["at"] = float64(time.Now().UnixMicro()) / 1e6
	say(fields)
}

func untilSigterm() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	return ctx
}

func clientID() kgo.Opt {
	return kgo.ClientID(os.Getenv("STRANGER_CLIENT_ID"))
}

func write(bootstrap, topic string, partitions int, name string, rate int) {
	over := untilSigterm()
	client := open(bootstrap, clientID(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProduceRequestTimeout(10*time.Second), kgo.StopProducerOnDataLossDetected())
	defer client.Close()
	sent := 0
	for over.Err() == nil {
		number := sent
		sent++
		record := &kgo.Record{Topic: topic, Partition: int32(number % partitions), Value: []byte(fmt.Sprintf("%s %d", name, number))}
		client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
			if err != nil {
				tell(map[string]any{"number": number, "error": err.Error()})
			} else {
				tell(map[string]any{"number": number, "partition": done.Partition, "offset": done.Offset})
			}
		})
		time.Sleep(time.Second / time.Duration(rate))
	}
	check(client.Flush(context.Background()))
	tell(map[string]any{"sent": sent})
}

type member struct {
	sync.Mutex
	topic string
	next  map[int32]int64
}

func (m *member) commit(client *kgo.Client) {
	offsets, wanted := map[int32]int64{}, map[int32]kgo.EpochOffset{}
	m.Lock()
	for partition, offset := range m.next {
		offsets[partition], wanted[partition] = offset, kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	m.Unlock()
	if len(offsets) == 0 {
		return
	}
	tell(map[string]any{"committing": offsets})
	var problem error
	client.CommitOffsetsSync(context.Background(), map[string]map[int32]kgo.EpochOffset{m.topic: wanted},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			problem = err
			if err != nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					problem = errors.Join(problem, kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		})
	if problem != nil {
		tell(map[string]any{"not_committed": problem.Error()})
	} else {
		tell(map[string]any{"committed": offsets})
	}
}

func (m *member) drop(partitions []int32) {
	m.Lock()
	defer m.Unlock()
	for _, partition := range partitions {
		delete(m.next, partition)
	}
	tell(map[string]any{"revoked": partitions})
}

func follow(bootstrap, topic, group string) {
	over := untilSigterm()
	m := &member{topic: topic, next: map[int32]int64{}}
	client := open(bootstrap, clientID(), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(10*time.Second), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			if len(partitions[topic]) > 0 {
				tell(map[string]any{"assigned": partitions[topic]})
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			m.commit(client)
			m.drop(partitions[topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) { m.drop(partitions[topic]) }))
	committed := time.Now()
	for over.Err() == nil {
		ctx, cancel := context.WithTimeout(over, 200*time.Millisecond)
		found := client.PollRecords(ctx, 200)
		cancel()
		found.EachError(func(_ string, partition int32, err error) {
			var session *kgo.ErrGroupSession // it lost its partitions, and joins again by itself
			if errors.As(err, &session) {
				fmt.Fprintln(os.Stderr, err)
			} else if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				tell(map[string]any{"error": fmt.Sprintf("partition %d: %v", partition, err)})
			}
		})
		found.EachRecord(func(one *kgo.Record) {
			tell(map[string]any{"partition": one.Partition, "offset": one.Offset, "value": string(one.Value)})
			m.Lock()
			m.next[one.Partition] = one.Offset + 1
			m.Unlock()
		})
		if time.Since(committed) > time.Second {
			m.commit(client)
			committed = time.Now()
		}
		client.AllowRebalance()
	}
	m.commit(client)
	client.CloseAllowingRebalance()
}
