package services

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// 5.5.0 is passed over: after its first transaction message one thread of the broker spins until restart.
const rocketmqVersion = "5.3.3"

// The broker takes the port two below its own as well, and one for replication.
var rocketmq = &service{
	name:      "rocketmq",
	variable:  "TXMSG_TEST_ROCKETMQ",
	ports:     4,
	address:   rocketmqAddress,
	ready:     rocketmqReady,
	native:    rocketmqNative,
	image:     rocketmqImage,
	installed: javaInstalled("rocketmq-" + rocketmqVersion),
	packages:  javaPackages,
}

// RocketMQ returns the address of a name server with one broker, which creates topics on first use and asks back about
// half messages after about two seconds, 15 times at most. Other tests use the server at the same time: choose names
// of your own for topics and groups.
func RocketMQ(t testing.TB) string {
	t.Helper()
	return rocketmq.provide(t)
}

// StartRocketMQ starts a name server and a broker that are t's alone and end with it. Settings are those of broker.conf.
// The Server's address is the name server's; what the Server does is done to the broker, while the name server goes on
// (in a container both share one fate). An orderly Stop takes the broker about 15 seconds, most of it waiting; Kill does not.
func StartRocketMQ(t testing.TB, settings map[string]string) *Server {
	t.Helper()
	return rocketmq.start(t, place{config: settings})
}

// StartRocketMQProxied is StartRocketMQ with a Proxy before the broker. Clients that ask the name server for the broker
// get the proxy's address. The name server is reached directly.
func StartRocketMQProxied(t testing.TB, settings map[string]string) (*Server, *Proxy) {
	t.Helper()
	return rocketmq.startProxied(t, place{config: settings})
}

func rocketmqAddress(p place) string { return join(p.host, p.ports[0]) }

// rocketmqSettings keeps transactionOpBatchInterval far below the time-outs: the broker notes settled messages in batches
// of that interval, and one not yet noted is asked about and delivered once more.
func rocketmqSettings(p place, listen, store string) map[string]string {
	settings := map[string]string{
		"brokerClusterName":           "DefaultCluster",
		"brokerName":                  "broker-a",
		"brokerId":                    "0",
		"brokerIP1":                   p.host,
		"bindAddress":                 listen,
		"listenPort":                  strconv.Itoa(p.port()),
		"haListenPort":                strconv.Itoa(p.port() - 1),
		"namesrvAddr":                 fmt.Sprintf("%s:%d", loopback, p.ports[0]),
		"storePathRootDir":            store,
		"storePathCommitLog":          filepath.Join(store, "commitlog"),
		"flushDiskType":               "ASYNC_FLUSH",
		"mappedFileSizeCommitLog":     "67108864",
		"autoCreateTopicEnable":       "true",
		"autoCreateSubscriptionGroup": "true",
		"transactionTimeOut":          "1500",
		"transactionCheckInterval":    "2000",
		"transactionCheckMax":         "15",
		"transactionOpBatchInterval":  "200",
	}
	maps.Copy(settings, p.config)
	return settings
}

func rocketmqNative(ctx context.Context, p place) ([]daemon, error) {
	java, err := javaProgram()
	if err != nil {
		return nil, err
	}
	jars, err := jars(ctx, "rocketmq-"+rocketmqVersion,
		artifact{"org.apache.rocketmq", "rocketmq-namesrv", rocketmqVersion},
		artifact{"org.apache.rocketmq", "rocketmq-broker", rocketmqVersion})
	if err != nil {
		return nil, err
	}
	nameServerConfig := filepath.Join(p.dir, "namesrv.conf")
	text := fmt.Sprintf("listenPort=%d\nbindAddress=%s\n", p.ports[0], loopback)
	if err := os.WriteFile(nameServerConfig, []byte(text), 0o644); err != nil {
		return nil, err
	}
	brokerConfig := filepath.Join(p.dir, "broker.conf")
	text = lines(rocketmqSettings(p, p.bind, filepath.Join(p.dir, "data")), "=")
	if err := os.WriteFile(brokerConfig, []byte(text), 0o644); err != nil {
		return nil, err
	}
	start := func(memory []string, class, config string) []string {
		argv := append([]string{
			java,
			"--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
			"--add-opens", "java.base/java.nio=ALL-UNNAMED",
			"--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
			"-Duser.home=" + p.dir,
		}, memory...)
		return append(argv, "-cp", jars, class, "-c", config)
	}
	address := rocketmqAddress(p)
	env := []string{"ROCKETMQ_HOME=" + p.dir}
	return []daemon{{
		name: "namesrv",
		argv: start([]string{"-Xms64m", "-Xmx256m"}, "org.apache.rocketmq.namesrv.NamesrvStartup", nameServerConfig),
		env:  env,
		stop: syscall.SIGTERM,
		quit: syscall.SIGKILL,
		ready: func(ctx context.Context) error {
			_, err := brokersAt(ctx, address)
			return err
		},
	}, {
		name: "broker",
		argv: start([]string{"-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m"},
			"org.apache.rocketmq.broker.BrokerStartup", brokerConfig),
		env:   env,
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
		ready: func(ctx context.Context) error { return rocketmqReady(ctx, address) },
	}}, nil
}

func rocketmqImage(p place) image {
	return image{
		name:    "apache/rocketmq:" + rocketmqVersion,
		command: []string{"sh", "-c", "./mqnamesrv -c /txmsg/namesrv.conf & exec ./mqbroker -c /txmsg/broker.conf"},
		env:     map[string]string{"JAVA_OPT_EXT": "-Xms256m -Xmx512m -XX:MaxDirectMemorySize=512m"},
		files: map[string]string{
			"/txmsg/namesrv.conf": fmt.Sprintf("listenPort=%d\n", p.ports[0]),
			"/txmsg/broker.conf":  lines(rocketmqSettings(p, "0.0.0.0", "/home/rocketmq/store"), "="),
		},
	}
}
