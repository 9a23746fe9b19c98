package services

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// folderPrefix begins the name of every data folder, so that nothing else is ever deleted.
const folderPrefix = "txmsg-service-"

// sweepScript ends the processes of one data folder and deletes it, once its input ends. It is a process of its own
// because a test binary that is killed runs nothing more. A pid file holds process id, start time and the signal that
// ends the server fast but in such a way that it leaves nothing behind in the system; a frozen process is thawed to
// get it. Fields of stat are counted from after the command name.
const sweepScript = `
cat >/dev/null
running() {
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	started=$2
	set -- ${stat##*) }
	[ "${20}" = "$started" ] && [ "$1" != Z ]
}
for file in "$1"/*.pid; do
	read -r pid start signal <"$file" 2>/dev/null || continue
	running "$pid" "$start" || continue
	kill -s "$signal" "$pid"
	kill -s CONT "$pid"
done
for file in "$1"/*.pid; do
	read -r pid start signal <"$file" 2>/dev/null || continue
	tries=0
	while running "$pid" "$start"; do
		tries=$((tries + 1))
		[ "$tries" -gt 100 ] && kill -s KILL "$pid"
		[ "$tries" -gt 200 ] && break
		sleep 0.05
	done
done
rm -rf "$1" 2>/dev/null || { sleep 1; rm -rf "$1"; }
`

// sweeper cleans up after one data folder when the process that made it is done with it or dead.
type sweeper struct {
	command *exec.Cmd
	hold    io.Closer
}

// newSweeper returns a sweeper that waits. It is in a session of its own, out of reach of the terminal's interrupt.
func newSweeper(dir string) (*sweeper, error) {
	command := exec.Command("sh", "-c", sweepScript, "sweep", dir)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &sweeper{command: command, hold: hold}, nil
}

// sweep lets the sweeper work and waits for it.
func (s *sweeper) sweep() error {
	if err := s.hold.Close(); err != nil {
		return err
	}
	return s.command.Wait()
}

// dismiss ends the sweeper with its work not done.
func (s *sweeper) dismiss() error {
	if err := s.command.Process.Kill(); err != nil {
		return err
	}
	_ = s.command.Wait() // says that it was killed
	return nil
}

// sweepFolder does at once what a sweeper does.
func sweepFolder(ctx context.Context, dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), folderPrefix) {
		return fmt.Errorf("remove %s: not a data folder of a service", dir)
	}
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		return nil
	}
	output, err := exec.CommandContext(ctx, "sh", "-c", sweepScript, "sweep", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove %s: %w: %s", dir, err, output)
	}
	return nil
}
