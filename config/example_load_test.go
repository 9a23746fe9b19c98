package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/txmsg/txmsg-go/config"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "shop.yaml")
	text := "listen: :8080\nbackend: localtable/nats\nnats: {urls: [nats://a:4222], timeot: 1s}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	source, err := config.Load(path, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	var own struct {
		Listen   string `yaml:"listen"`
		Database string `yaml:"database" config:"required"`
	}
	fmt.Println(source.Decode(&own))

	var nats struct {
		URLs    []string      `yaml:"urls"`
		Timeout time.Duration `yaml:"timeout"`
	}
	fmt.Println(source.Section("nats", &nats))
	// Output:
	// config: database is required
	// config: nats.timeot is unknown, there are timeout, urls (shop.yaml line 3)
}
