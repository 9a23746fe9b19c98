package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/txmsg/txmsg-go/"

// arrows is the import table of docs/architecture.md: the packages of this module that each library package may
// import, itself and its internal packages aside. A package that is not listed may import anything.
var arrows = map[string][]string{
	"txmsg":             {},
	"config":            {"txmsg"},
	"checker":           {"txmsg"},
	"localtable":        {"txmsg"},
	"consumer":          {"txmsg"},
	"rocketmq":          {"txmsg", "checker"},
	"broker/kafka":      {"txmsg", "broker/internal"},
	"broker/nats":       {"txmsg", "broker/internal"},
	"database/postgres": {"txmsg", "checker", "localtable", "consumer"},
	"database/sqlite":   {"txmsg", "checker", "localtable", "consumer"},
}

// strangers must not be compiled into a program that imports only the package: each broker's client and each database's
// driver belongs to one package, and what tests and the demo need to none.
var strangers = map[string][]string{
	"github.com/jackc/pgx":                 {"database/postgres"},
	"modernc.org/sqlite":                   {"database/sqlite"},
	"github.com/twmb/franz-go":             {"broker/kafka"},
	"github.com/nats-io/nats.go":           {"broker/nats"},
	"github.com/apache/rocketmq-client-go": {"rocketmq"},
	"github.com/nats-io/nats-server":       {},
	"github.com/gin-gonic":                 {},
	"github.com/testcontainers":            {},
	"github.com/stretchr/testify":          {},
	"github.com/Shopify/toxiproxy":         {},
	"go.opentelemetry.io/otel/sdk":         {},
}

func TestImportsFollowTheTable(t *testing.T) {
	for pkg, allowed := range arrows {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			for _, dep := range dependencies(t, "./"+pkg) {
				if own, ok := strings.CutPrefix(dep, module); ok {
					require.True(t, slices.ContainsFunc(append(allowed, pkg), func(a string) bool {
						return own == a || strings.HasPrefix(own, a+"/internal") || a == "broker/internal" && strings.HasPrefix(own, a)
					}), "%s must not import %s", pkg, own)
				}
				for stranger, owners := range strangers {
					if strings.HasPrefix(dep, stranger) {
						require.Contains(t, owners, pkg, "%s must not pull in %s", pkg, dep)
					}
				}
			}
		})
	}
}

func TestContractImportsOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	for _, dep := range dependencies(t, "./txmsg") {
		host, _, _ := strings.Cut(dep, "/")
		if !strings.Contains(host, ".") || strings.HasPrefix(dep, module) { // the standard library, or our own
			continue
		}
		require.True(t, strings.HasPrefix(dep, "github.com/google/uuid") || strings.HasPrefix(dep, "go.opentelemetry.io/otel") ||
			strings.HasPrefix(dep, "go.opentelemetry.io/auto/sdk") || strings.HasPrefix(dep, "github.com/go-logr") ||
			strings.HasPrefix(dep, "github.com/cespare/xxhash"), "txmsg pulls in %s", dep)
	}
}

func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath", pkg)
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	var deps []string
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct{ ImportPath string }
		err := decoder.Decode(&listed)
		if errors.Is(err, io.EOF) {
			return deps
		}
		require.NoError(t, err)
		deps = append(deps, listed.ImportPath)
	}
}
