package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	containertype "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// image is how a service is started from an image.
type image struct {
	name    string
	command []string
	env     map[string]string
	files   map[string]string // content by path
	host    bool              // it is in the network of the engine's host, to reach what listens there
}

// container is an instance in a container. It is reached at the ports it listens at inside, so that a restart, which
// would change ports chosen by the engine, keeps its address.
type container struct {
	service *service
	place   place
	engine  *testcontainers.DockerProvider
	id      string
}

var _ instance = (*container)(nil)

// dockerEngine returns the engine if one answers.
func dockerEngine(ctx context.Context) (engine *testcontainers.DockerProvider, err error) {
	defer func() {
		// The library panics where it finds no engine in any of the usual places.
		if found := recover(); found != nil {
			engine, err = nil, fmt.Errorf("docker: %v", found)
		}
	}()
	if engine, err = testcontainers.NewDockerProvider(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err = engine.Client().Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// newContainer creates the container. When the process ends, the library's reaper removes it, unless that is disabled.
func newContainer(ctx context.Context, s *service, p place, engine *testcontainers.DockerProvider) (instance, error) {
	host, err := engine.DaemonHost(ctx)
	if err != nil {
		return nil, err
	}
	if p.host == loopback && host != "localhost" {
		p.host, p.bind = host, "0.0.0.0"
	}
	bind, err := netip.ParseAddr(p.bind)
	if err != nil {
		return nil, err
	}
	from := s.image(p)
	request := testcontainers.ContainerRequest{Image: from.name, Cmd: from.command, Env: from.env}
	bindings := network.PortMap{}
	for _, number := range p.ports {
		port, err := network.ParsePort(strconv.Itoa(number) + "/tcp")
		if err != nil {
			return nil, err
		}
		request.ExposedPorts = append(request.ExposedPorts, port.String())
		bindings[port] = []network.PortBinding{{HostIP: bind, HostPort: strconv.Itoa(number)}}
	}
	request.HostConfigModifier = func(config *containertype.HostConfig) { config.PortBindings = bindings }
	if from.host {
		request.ExposedPorts = nil
		request.HostConfigModifier = func(config *containertype.HostConfig) { config.NetworkMode = network.NetworkHost }
	}
	for path, content := range from.files {
		request.Files = append(request.Files, testcontainers.ContainerFile{
			Reader: strings.NewReader(content), ContainerFilePath: path, FileMode: 0o644,
		})
	}
	created, err := engine.CreateContainer(ctx, request)
	if err != nil {
		return nil, err
	}
	// The first start goes through the library: it copies the files.
	c := &container{service: s, place: p, engine: engine, id: created.GetContainerID()}
	if err := created.Start(ctx); err != nil {
		return nil, errors.Join(err, c.remove(ctx))
	}
	return c, nil
}

func (c *container) address() string { return c.service.address(c.place) }

func (c *container) release() (trace, error) {
	return trace{Service: c.service.name, Address: c.address(), Container: c.id}, nil
}

func (c *container) start(ctx context.Context) error {
	if running, err := c.running(ctx); err != nil {
		return err
	} else if !running {
		if _, err := c.engine.Client().ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
			return err
		}
	}
	return await(ctx, func(ctx context.Context) error { return c.service.ready(ctx, c.address()) }, func() error {
		running, err := c.running(ctx)
		if err == nil && !running {
			err = fmt.Errorf("container %s ended before it was ready", c.id)
		}
		return err
	})
}

func (c *container) running(ctx context.Context) (bool, error) {
	result, err := c.engine.Client().ContainerInspect(ctx, c.id, client.ContainerInspectOptions{})
	if err != nil {
		return false, err
	}
	return result.Container.State != nil && result.Container.State.Running, nil
}

func (c *container) stop(ctx context.Context) error {
	seconds := 30
	_, err := c.engine.Client().ContainerStop(ctx, c.id, client.ContainerStopOptions{Timeout: &seconds})
	return err
}

func (c *container) kill(ctx context.Context) error {
	if running, err := c.running(ctx); err != nil || !running {
		return err
	}
	_, err := c.engine.Client().ContainerKill(ctx, c.id, client.ContainerKillOptions{Signal: "KILL"})
	return err
}

func (c *container) pause(ctx context.Context) error {
	_, err := c.engine.Client().ContainerPause(ctx, c.id, client.ContainerPauseOptions{})
	return err
}

func (c *container) resume(ctx context.Context) error {
	_, err := c.engine.Client().ContainerUnpause(ctx, c.id, client.ContainerUnpauseOptions{})
	return err
}

func (c *container) remove(ctx context.Context) error {
	return errors.Join(removeContainer(ctx, c.engine, c.id), c.engine.Close())
}

func removeContainer(ctx context.Context, engine *testcontainers.DockerProvider, id string) error {
	_, err := engine.Client().ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}
