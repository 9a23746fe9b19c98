// Package config reads a program's configuration from a YAML file and the environment into plain structs, strictly: an
// unknown name, a value of the wrong kind and a missing required one are errors that name the setting, and all of them
// are reported together.
//
//	source, err := config.Load("shop.yaml", "TXMSG")
//	...
//	var own struct {
//		Listen   string        `yaml:"listen" config:"required"`
//		Database string        `yaml:"database" config:"required"`
//		Timeout  time.Duration `yaml:"timeout"`
//	}
//	own.Timeout = 5 * time.Second                    // a default: what is not set keeps its value
//	err = source.Decode(&own)                        // the program's own settings first
//	messenger, err := backends.Open(ctx, source)     // then messaging's, whatever is left
//
// The file holds the program's own settings beside the messaging ones: the name of the backend and a section for each of
// its parts.
//
//	listen: :8080
//	database: postgres://localhost/shop
//	backend: localtable/nats
//	localtable: {batch_size: 200, poll_interval: 1.5s}
//	nats: {urls: [nats://localhost:4222]}
//
// # Environment
//
// A variable overrides one value. Its name is the prefix and the path in upper case, joined by underscores:
// TXMSG_BACKEND, TXMSG_LISTEN, TXMSG_LOCALTABLE_BATCH_SIZE. A list is separated by commas or written as in YAML,
// [a, b]. A variable that is set to nothing sets an empty text, and is an error for other kinds. A name under the prefix that fits
// no setting is refused, as in the file. The exception are names that begin with the prefix and TEST, such as
// TXMSG_TEST_KAFKA: test suites keep the addresses of their services there.
package config
