package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const loadFact = "load before the run"

// facts about what was measured on.
func facts(ctx context.Context, s *server, kafka string) (found [][2]string, err error) {
	found = append(found,
		[2]string{"processors", fmt.Sprintf("%d × %s, shared by servers and contenders", runtime.NumCPU(), processor())},
		[2]string{loadFact, loadAverage()})
	for _, setting := range []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size"} {
		value, err := s.setting(ctx, setting)
		if err != nil {
			return nil, err
		}
		found = append(found, [2]string{"PostgreSQL " + setting, value})
	}
	version, err := kafkaVersion(ctx, kafka)
	if err != nil {
		return nil, err
	}
	found = append(found, [2]string{"Kafka", version + fmt.Sprintf(", one node, %d partitions, acks=all, idempotent producer", partitions)},
		[2]string{"Go", runtime.Version()})
	return append(found, libraries()...), nil
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // not on every system
	for line := range strings.Lines(string(text)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // not on every system
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func kafkaVersion(ctx context.Context, address string) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return "", err
	}
	defer client.Close()
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return "", err
	}
	return kversion.FromApiVersionsResponse(answer).VersionGuess(), nil
}

func libraries() (found [][2]string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, dependency := range info.Deps {
		for _, name := range []string{"jackc/pgx/v5", "twmb/franz-go", "ThreeDotsLabs/watermill-sql/v4", "riverqueue/river", "oagudo/outbox"} {
			if dependency.Path == "github.com/"+name {
				found = append(found, [2]string{name, dependency.Version})
			}
		}
	}
	return found
}
