package services

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const kafkaVersion = "4.3.1"

var kafka = &service{
	name:      "kafka",
	variable:  "TXMSG_TEST_KAFKA",
	ports:     2,
	address:   kafkaAddress,
	ready:     kafkaReady,
	native:    kafkaNative,
	image:     kafkaImage,
	installed: javaInstalled("kafka-" + kafkaVersion),
	packages:  javaPackages,
}

// Kafka returns the bootstrap address of a Kafka server that creates topics on first use. Other tests use the server at the
// same time: choose names of your own for topics, groups and transactional ids.
func Kafka(t testing.TB) string {
	t.Helper()
	return kafka.provide(t)
}

// StartKafka starts a server that is t's alone and ends with it. Settings are those of server.properties.
func StartKafka(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	return kafka.start(t, place{config: settings})
}

// StartKafkaProxied is StartKafka with a Proxy before the server. Clients reach it through the proxy alone, also at the
// address that the server tells them.
func StartKafkaProxied(t testing.TB, settings map[string]string) (*Server, *Proxy) {
	t.Helper()
	return kafka.startProxied(t, place{config: settings})
}

func kafkaAddress(p place) string { return join(p.host, p.port()) }

// kafkaReady also asks for a group coordinator: the first such question makes the server create its offsets topic.
func kafkaReady(ctx context.Context, address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	metadata, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if len(metadata.Brokers) == 0 {
		return errors.New("no broker in the metadata")
	}
	return admin.FindGroupCoordinators(ctx, "txmsg-ready").Error()
}

func kafkaSettings(p place, listen string) map[string]string {
	settings := map[string]string{
		"process.roles": "broker,controller",
		"node.id":       "1",
		"listeners":     fmt.Sprintf("PLAINTEXT://%s:%d,CONTROLLER://%s:%d", listen, p.port(), loopback, p.ports[0]),
		"advertised.listeners": fmt.Sprintf(
			"PLAINTEXT://%s:%d,CONTROLLER://%s:%d", p.host, p.port(), loopback, p.ports[0]),
		"listener.security.protocol.map":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"num.partitions":                                   "3",
		"offsets.topic.num.partitions":                     "5",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "5",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "5",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
	}
	maps.Copy(settings, p.config)
	return settings
}

func kafkaNative(ctx context.Context, p place) ([]daemon, error) {
	java, err := javaProgram()
	if err != nil {
		return nil, err
	}
	jars, err := jars(ctx, "kafka-"+kafkaVersion, artifact{"org.apache.kafka", "kafka_2.13", kafkaVersion})
	if err != nil {
		return nil, err
	}
	settings := kafkaSettings(p, p.bind)
	settings["controller.quorum.bootstrap.servers"] = fmt.Sprintf("%s:%d", loopback, p.ports[0])
	settings["log.dirs"] = filepath.Join(p.dir, "data")
	config := filepath.Join(p.dir, "server.properties")
	if err := os.WriteFile(config, []byte(lines(settings, "=")), 0o644); err != nil {
		return nil, err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	format := exec.CommandContext(ctx, java, "-cp", jars, "kafka.tools.StorageTool",
		"format", "--standalone", "--cluster-id="+base64.RawURLEncoding.EncodeToString(id[:]), "-c", config) // it may begin with a dash
	if output, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format storage: %w: %s", err, output)
	}
	return []daemon{{
		name:  "kafka",
		argv:  []string{java, "-Xmx512m", "-cp", jars, "kafka.Kafka", config},
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
		ready: func(ctx context.Context) error { return kafkaReady(ctx, kafkaAddress(p)) },
	}}, nil
}

func kafkaImage(p place) image {
	settings := kafkaSettings(p, "")
	settings["controller.quorum.voters"] = fmt.Sprintf("1@%s:%d", loopback, p.ports[0])
	env := map[string]string{}
	for name, value := range settings {
		env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(name, ".", "_"))] = value
	}
	return image{name: "apache/kafka:" + kafkaVersion, env: env}
}
