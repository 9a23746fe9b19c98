package services

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

var javaPackages = []string{"default-jre-headless", "maven"}

// artifact is a Maven artifact.
type artifact struct{ group, name, version string }

// javaProgram finds the java to run servers with.
func javaProgram() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", "java"))
	}
	return exec.LookPath("java")
}

// javaInstalled also asks for Maven, unless jars are no longer to be fetched.
func javaInstalled(name string) func() error {
	return func() error {
		if _, err := javaProgram(); err != nil {
			return err
		}
		if cache, err := os.UserCacheDir(); err == nil {
			if _, err := os.Stat(filepath.Join(cache, "txmsg", "jars", name)); err == nil {
				return nil
			}
		}
		_, err := exec.LookPath("mvn")
		return err
	}
}

// jars returns a class path with the artifacts and all they need, fetched by Maven on first use into the user's cache
// folder. Processes that need the same jars at once wait for the one that fetches them.
func jars(ctx context.Context, name string, artifacts ...artifact) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder for jars: %w: %w", err, errMissing)
	}
	folder := filepath.Join(cache, "txmsg", "jars")
	ready := filepath.Join(folder, name)
	if _, err := os.Stat(ready); err == nil {
		return filepath.Join(ready, "*"), nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ready + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(ready); err == nil {
		return filepath.Join(ready, "*"), nil
	}
	if err := fetch(ctx, folder, ready, artifacts); err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	return filepath.Join(ready, "*"), nil
}

// fetch has Maven copy the artifacts, and shows them under their name only when all are there.
func fetch(ctx context.Context, folder, ready string, artifacts []artifact) error {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(folder, "fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom(artifacts)), 0o644); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, maven, "-q", "-B", "dependency:copy-dependencies",
		"-DoutputDirectory=lib", "-DincludeScope=runtime")
	command.Dir = work
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w: %s: %w", err, output, errMissing)
	}
	return os.Rename(filepath.Join(work, "lib"), ready)
}

func pom(artifacts []artifact) string {
	var text strings.Builder
	text.WriteString(xml.Header + `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>` +
		`<groupId>txmsg</groupId><artifactId>services</artifactId><version>1</version><packaging>pom</packaging><dependencies>`)
	for _, a := range artifacts {
		fmt.Fprintf(&text, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>",
			a.group, a.name, a.version)
	}
	text.WriteString("</dependencies></project>\n")
	return text.String()
}

// installPackages installs what native starts of the services need and the machine lacks.
func installPackages(ctx context.Context, services []*service) error {
	var missing []string
	for _, s := range services {
		if s.installed() != nil {
			missing = append(missing, s.packages...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("install %s: needs root and apt-get", strings.Join(missing, " "))
	}
	for _, arguments := range [][]string{
		{"update"},
		append([]string{"install", "-y", "--no-install-recommends"}, missing...),
	} {
		command := exec.CommandContext(ctx, "apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", arguments[0], err, output)
		}
	}
	return nil
}

// lock waits for and takes a lock between processes. The lock ends with the process.
func lock(file string) (unlock func(), err error) {
	held, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(held.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), held.Close())
	}
	return func() { _ = held.Close() }, nil
}
